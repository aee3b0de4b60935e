#include "ir/ops/parameter_roles.h"

#include <algorithm>
#include <vector>

#include "base/tensor/einsum.h"

namespace tessera {
namespace {

/// A reader, and the value that it reads: the one in question, or a cast of it.
struct Reader {
  OpId op;
  ValueId read;
};

/// The ops of the forward that read `value` or a cast of it, which mixed precision reads in place
/// of a parameter.
std::vector<Reader> forward_readers(const Graph& graph, ValueId value) {
  std::vector<Reader> readers;
  for (const OpId id : graph.value(value).users) {
    const Op& op = graph.op(id);
    if (op.role != Role::kForward) continue;
    if (op.kind != "cast") {
      readers.push_back({id, value});
      continue;
    }
    const std::vector<Reader> of_cast = forward_readers(graph, op.outputs.front());
    readers.insert(readers.end(), of_cast.begin(), of_cast.end());
  }
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
  if (producer.index < 0) return false;
  const Op& op = graph.op(producer);
  return op.kind == "cast" ? is_product(graph, op.inputs.front()) : op.kind == "dot_general";
}

/// Is `value` only added to results of products?
bool is_only_added(const Graph& graph, ValueId value) {
  const std::vector<Reader> readers = forward_readers(graph, value);
  return !readers.empty() && std::ranges::all_of(readers, [&](const Reader& reader) {
    const Op& op = graph.op(reader.op);
    return op.kind == "add" &&
           is_product(graph, op.inputs[0] == reader.read ? op.inputs[1] : op.inputs[0]);
  });
}

}  // namespace

std::optional<int> input_dims_of_weight(const Graph& graph, ValueId variable) {
  std::optional<int> dims;
  for (const Reader& reader : forward_readers(graph, variable)) {
    const Op& op = graph.op(reader.op);
    if (op.kind != "dot_general") return std::nullopt;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] != reader.read) continue;
      const std::optional<int> contracted = contracted_dims(op, i);
      if (!contracted || dims.value_or(*contracted) != *contracted) return std::nullopt;
      dims = contracted;
    }
  }
  return dims;
}

const Variable* variable_after(const Graph& graph, ValueId value) {
  const OpId producer = graph.value(value).producer;
  if (producer.index < 0) return graph.variable_of(value);
  const Op& op = graph.op(producer);
  return op.kind == "cast" ? graph.variable_of(op.inputs.front()) : nullptr;
}

bool is_bias(const Graph& graph, ValueId variable) {
  const std::vector<Reader> readers = forward_readers(graph, variable);
  const bool is_spread =
      !readers.empty() && std::ranges::all_of(readers, [&](const Reader& reader) {
        const Op& op = graph.op(reader.op);
        return op.kind == "broadcast" && is_only_added(graph, op.outputs.front());
      });
  return is_spread || is_only_added(graph, variable);
}

}  // namespace tessera
