#include "ir/ops/check_ops.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

std::string types_text(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> types;
  for (const ValueId value : values) types.push_back(to_text(graph.type(value)));
  return join(types, ", ");
}

void check_op(const Graph& graph, const Op& op) {
  Graph copy(graph.operators());
  Builder builder(copy);
  std::vector<ValueId> inputs;
  for (const ValueId input : op.inputs)
    inputs.push_back(builder.input("operand", graph.type(input)));
  std::vector<ValueId> results;
  try {
    results = builder.op(op.kind, inputs, op.attributes, op.name, op.regions);
  } catch (const InternalError& error) {  // an attribute that is missing or of another kind
    refuse_data("'" + op.name + "' is no " + op.kind + ": " + error.what(),
                "the operator " + op.kind + " has other attributes", "write those of the operator");
  }
  const std::string given = types_text(graph, op.outputs), right = types_text(copy, results);
  if (given != right)
    refuse_data("'" + op.name + "' is declared as " + given,
                "the result of " + op.kind + " of these operands is " + right, "write " + right);
}

}  // namespace

void check_ops(const Graph& graph) {
  Graph copy;
  Builder variables(copy);
  for (const Variable& variable : graph.variables())
    variables.variable(graph.value(variable.value).name, graph.type(variable.value),
                       variable.initializer, variable.trainable);
  for (const Op& op : graph.ops()) {
    for (const GraphPtr& region : op.regions) check_ops(*region);
    check_op(graph, op);
  }
}

}  // namespace tessera
