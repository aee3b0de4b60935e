#include "ir/models/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/tensor/einsum.h"
#include "base/text/text.h"
#include "ir/ops/builder.h"
#include "ir/ops/parameter_roles.h"

namespace tessera {
namespace {

constexpr std::string_view kDown = ".lora_a", kUp = ".lora_b";

/// The weights of linear layers that match a target, with the number of their leading dims that
/// are inputs.
using Targets = std::map<int, int>;  // by value

Targets targets_of(const Graph& graph, const Lora& lora) {
  Targets targets;
  std::vector<bool> is_used(lora.targets.size(), false);
  std::vector<std::string> names;
  for (const Variable& variable : graph.variables()) {
    const std::string& name = graph.value(variable.value).name;
    const std::optional<int> inputs = input_dims_of_weight(graph, variable.value);
    if (!variable.trainable || !inputs) continue;
    names.push_back(name);
    for (size_t i = 0; i < lora.targets.size(); ++i)
      if (matches(lora.targets[i], name)) {
        is_used[i] = true;
        targets[variable.value.index] = *inputs;
      }
  }
  for (size_t i = 0; i < lora.targets.size(); ++i) {
    if (is_used[i]) continue;
    throw UserError("the target '" + lora.targets[i] + "' of model.lora_targets matches no weight",
                    "adapters are added to weights of linear layers" +
                        (names.empty() ? ", of which this model has none"
                                       : ", such as '" + names.front() + "'"),
                    "name weights that it has, or remove the target", ExitCode::kBadConfig);
  }
  return targets;
}

/// Copies a graph and adds the adapters after the products.
class AdapterWriter {
 public:
  AdapterWriter(const Graph& graph, const Lora& lora)
      : graph_(graph),
        lora_(lora),
        targets_(targets_of(graph, lora)),
        made_(graph.operators()),
        builder_(made_),
        now_(graph.values().size()) {}

  Graph write() {
    std::vector<const Variable*> variable_of(graph_.values().size(), nullptr);
    for (const Variable& variable : graph_.variables())
      variable_of[variable.value.index] = &variable;
    for (int i = 0; i < std::ssize(graph_.values()); ++i) {
      const Value& value = graph_.value({i});
      if (value.producer.index >= 0) {
        if (graph_.op(value.producer).outputs.front() == ValueId{i}) add_op(value.producer);
      } else if (const Variable* variable = variable_of[i]) {
        now_[i] = made_.add_variable(value.name, value.type, variable->initializer,
                                     variable->trainable, variable->origin);
        if (const auto target = targets_.find(i); target != targets_.end())
          add_variables(value, target->second);
      } else {
        now_[i] = made_.add_input(value.name, value.type);
      }
    }
    for (const Variable& variable : graph_.variables())
      if (variable.next) made_.set_next(now_[variable.value.index], now_[variable.next->index]);
    for (const auto& [name, value] : graph_.outputs()) made_.add_output(name, now_[value.index]);
    return std::move(made_);
  }

 private:
  struct Adapter {
    ValueId down, up;
    int input_dims = 1;
  };

  void add_variables(const Value& weight, int input_dims) {
    const Shape& shape = weight.type.shape;
    Shape down, up{lora_.rank};
    double inputs = 1;
    for (int d = 0; d < shape.size(); ++d) {
      (d < input_dims ? down : up).push_back(shape[d]);
      if (d < input_dims) inputs *= static_cast<double>(shape[d]);
    }
    down.push_back(lora_.rank);
    const double bound = 1 / std::sqrt(inputs);
    const DType dtype = weight.type.dtype;
    adapters_[weight.name] = {
        made_.add_variable(weight.name + std::string(kDown), {dtype, down},
                           Initializer::uniform(-bound, bound)),
        made_.add_variable(weight.name + std::string(kUp), {dtype, up}, Initializer::constant(0)),
        input_dims};
  }

  void add_op(OpId id) {
    const Op& op = graph_.op(id);
    std::vector<ValueId> inputs;
    for (ValueId input : op.inputs) inputs.push_back(now_[input.index]);
    std::vector<TensorType> types;
    for (ValueId output : op.outputs) types.push_back(graph_.type(output));
    const OpId added = made_.add_op(op.name, op.kind, op.attributes, inputs, types, op.role,
                                    op.origin, op.regions);
    for (size_t i = 0; i < op.outputs.size(); ++i)
      now_[op.outputs[i].index] = made_.op(added).outputs[i];
    if (op.kind != "dot_general") return;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (const auto found = adapters_.find(graph_.value(op.inputs[i]).name);
          found != adapters_.end())
        now_[op.outputs.front().index] = add_adapter(op, i, found->second);
  }

  /// The result of the product `op`, of which the weight is operand `index`, with that of its
  /// adapter.
  ValueId add_adapter(const Op& op, size_t index, const Adapter& adapter) {
    const Einsum einsum = parse_einsum(op.attributes.text("spec")).value();
    const std::string& weight = einsum.operands[index];
    const std::string& rows = einsum.operands[1 - index];
    const std::string in = weight.substr(0, adapter.input_dims),
                      out = weight.substr(adapter.input_dims);
    char rank = 'A';
    while (has_letter(weight + rows, rank)) ++rank;
    std::string middle;  // the letters of the result without the outputs
    for (char letter : einsum.result)
      if (!has_letter(out, letter) || has_letter(rows, letter)) middle += letter;
    middle += rank;
    const auto scope = builder_.scope(op.name + ".lora");
    builder_.derive(op.role, op.origin);
    const ValueId x = now_[op.inputs[1 - index].index];
    const ValueId down =
        builder_.dot(x, adapter.down, rows + "," + in + rank + "->" + middle, "down");
    const ValueId up =
        builder_.dot(down, adapter.up, middle + "," + rank + out + "->" + einsum.result, "up");
    const ValueId scaled =
        builder_.mul_scalar(up, lora_.alpha / static_cast<double>(lora_.rank), "scaled");
    return builder_.add(now_[op.outputs.front().index], scaled, "sum");
  }

  const Graph& graph_;
  const Lora& lora_;
  const Targets targets_;
  Graph made_;
  Builder builder_;
  std::vector<ValueId> now_;                 // by value of the graph: in the graph that is made
  std::map<std::string, Adapter> adapters_;  // by the name of the weight
};

}  // namespace

Graph with_adapters(Graph graph, const Lora& lora) {
  if (lora.rank == 0) return graph;
  return AdapterWriter(graph, lora).write();
}

std::vector<std::string> adapter_patterns() {
  return {"*" + std::string(kDown), "*" + std::string(kUp)};
}

}  // namespace tessera
