#include "ops/parameter_roles.h"

#include <algorithm>
#include <vector>

#include "base/einsum.h"

namespace tessera {
namespace {

std::vector<OpId> forward_readers(const Graph& graph, ValueId value) {
  std::vector<OpId> readers = graph.value(value).users;
  std::erase_if(readers, [&](OpId id) { return graph.op(id).role != Role::kForward; });
  return readers;
}

/// The number of leading dims of `operand` that the product contracts; nothing unless these are all
/// that it contracts and it keeps at least one.
std::optional<int> contracted_dims(const Op& product, size_t operand) {
  const Einsum einsum = parse_einsum(product.attributes.text("spec")).value();
  const std::string& letters = einsum.operands[operand];
  const auto is_kept = [&](char letter) { return has_letter(einsum.result, letter); };
  const auto first_kept = std::find_if(letters.begin(), letters.end(), is_kept);
  if (first_kept == letters.begin() || first_kept == letters.end() ||
      !std::all_of(first_kept, letters.end(), is_kept))
    return std::nullopt;
  return static_cast<int>(first_kept - letters.begin());
}

bool is_product(const Graph& graph, ValueId value) {
  const OpId producer = graph.value(value).producer;
  return producer.index >= 0 && graph.op(producer).kind == "dot_general";
}

/// Is `value` only added to results of products?
bool is_only_added(const Graph& graph, ValueId value) {
  const std::vector<OpId> readers = forward_readers(graph, value);
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](OpId reader) {
    const Op& op = graph.op(reader);
    return op.kind == "add" &&
           is_product(graph, op.inputs[0] == value ? op.inputs[1] : op.inputs[0]);
  });
}

}  // namespace

std::optional<int> input_dims_of_weight(const Graph& graph, ValueId variable) {
  std::optional<int> dims;
  for (OpId reader : forward_readers(graph, variable)) {
    const Op& op = graph.op(reader);
    if (op.kind != "dot_general") return std::nullopt;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] != variable) continue;
      const std::optional<int> contracted = contracted_dims(op, i);
      if (!contracted || dims.value_or(*contracted) != *contracted) return std::nullopt;
      dims = contracted;
    }
  }
  return dims;
}

bool is_bias(const Graph& graph, ValueId variable) {
  const std::vector<OpId> readers = forward_readers(graph, variable);
  const bool is_spread =
      !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](OpId reader) {
        const Op& op = graph.op(reader);
        return op.kind == "broadcast" && is_only_added(graph, op.outputs.front());
      });
  return is_spread || is_only_added(graph, variable);
}

}  // namespace tessera
