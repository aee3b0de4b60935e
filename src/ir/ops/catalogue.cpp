// The list of all operators.
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "ir/ops/internal/families.h"
#include "ir/ops/operator_set.h"

namespace tessera {
namespace {

std::vector<const Operator*> list_operators() {
  std::vector<const Operator*> list;
  for (std::span<const Operator> family :
       {unary_operators(), binary_operators(), choice_operators(), source_operators(),
        dot_operators(), movement_operators(), reduce_operators(), gather_operators(),
        gather_along_operators(), gather_nd_operators(), order_operators(), scan_operators(),
        grouped_operators(), dynamic_operators(), attention_operators(), convolution_operators(),
        pooling_operators(), resize_operators()})
    for (const Operator& op : family) list.push_back(&op);
  return list;
}

[[noreturn]] void refuse_name(std::string_view name, std::span<const Operator> own) {
  std::vector<std::string_view> names;
  for (const Operator* op : all_operators()) names.push_back(op->name);
  for (const Operator& op : own) names.push_back(op.name);
  const std::string near = nearest(name, names);
  throw UserError(
      "'" + std::string(name) + "' is not an operator",
      "the catalogue has " + std::to_string(all_operators().size()) + " operators" +
          (own.empty() ? "" : ", the graph " + std::to_string(own.size()) + " of its own") +
          ", none of this name",
      near.empty()
          ? "see docs/operators.md for their names; an operator of your own needs a graph or a "
            "Network with its OperatorSet"
          : "did you mean '" + near + "'?",
      ExitCode::kBadData);
}

using OperatorTable = std::unordered_map<std::string_view, const Operator*>;

OperatorTable operators_by_name() {
  OperatorTable table;
  for (const Operator* op : all_operators()) table.emplace(op->name, op);
  for (const Operator& op : control_operators()) table.emplace(op.name, &op);
  return table;
}

const Operator* find_built_in(std::string_view name) {
  static const OperatorTable table = operators_by_name();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

std::span<const Operator* const> all_operators() {
  static const std::vector<const Operator*> list = list_operators();
  return list;
}

const Operator& find_operator(std::string_view name) {
  if (const Operator* op = find_built_in(name)) return *op;
  refuse_name(name, {});
}

const Operator& find_operator(const Graph& graph, std::string_view name) {
  if (!graph.operators()) return find_operator(name);
  if (const Operator* op = graph.operators()->find(name)) return *op;
  if (const Operator* op = find_built_in(name)) return *op;
  refuse_name(name, graph.operators()->operators());
}

}  // namespace tessera
