#include "ir/ops/internal/discovery/discovery_parts.h"

#include <algorithm>
#include <functional>
#include <set>

namespace tessera::detail {

OwnedOp own(const Operator& definition, const OpView& op) {
  OwnedOp owned{&definition, std::string(op.name), op.attributes, op.inputs, op.outputs};
  if (owned.outputs.empty()) owned.outputs = definition.infer(op);
  return owned;
}

bool infer_outputs(OwnedOp& op) {
  OpView view = op.view();
  view.outputs.clear();
  try {
    op.outputs = op.definition->infer(view);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

ReferenceTensor cut(const ReferenceTensor& tensor, const DiscoveredDim& along, int64_t extent,
                    const Range& range) {
  if (along.dim < 0) return tensor;
  ReferenceTensor part{tensor.type, {}};
  part.type.shape[along.dim] = along.chunks * range.size() * along.unit;
  int64_t inner = along.unit;
  for (int d = along.dim + 1; d < tensor.type.shape.size(); ++d) inner *= tensor.type.shape[d];
  const int64_t chunk = extent * inner;
  const auto count = static_cast<int64_t>(tensor.values.size());
  for (int64_t begin = 0; chunk > 0 && begin < count; begin += chunk)
    part.values.insert(part.values.end(), tensor.values.begin() + begin + range.begin * inner,
                       tensor.values.begin() + begin + range.end * inner);
  return part;
}

std::vector<SizeAttribute> size_attributes(const Attributes& attributes) {
  std::vector<SizeAttribute> sizes;
  for (const auto& [name, value] : attributes) {
    if (const auto* integer = std::get_if<int64_t>(&value); integer && *integer > 1)
      sizes.push_back({name, -1});
    const auto* list = std::get_if<std::vector<int64_t>>(&value);
    for (size_t i = 0; list && i < list->size(); ++i)
      if ((*list)[i] > 1) sizes.push_back({name, static_cast<int>(i)});
  }
  return sizes;
}

int64_t get(const Attributes& attributes, const SizeAttribute& size) {
  return size.entry < 0 ? attributes.integer(size.name)
                        : attributes.integers(size.name).at(size.entry);
}

void set(Attributes& attributes, const SizeAttribute& size, int64_t value) {
  if (size.entry < 0) return attributes.set(size.name, value);
  std::vector<int64_t> list = attributes.integers(size.name);
  list.at(size.entry) = value;
  attributes.set(size.name, list);
}

std::vector<int64_t> divisors_of(int64_t n) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    divisors.push_back(d);
    if (d * d != n) divisors.push_back(n / d);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

namespace {

/// Extents up to this one are small enough.
constexpr int64_t kSmall = 16;

std::vector<int64_t> extents_of(const OwnedOp& op) {
  std::set<int64_t, std::greater<>> extents;
  for (const auto* types : {&op.inputs, &op.outputs})
    for (const TensorType& type : *types) extents.insert(type.shape.begin(), type.shape.end());
  return {extents.begin(), extents.end()};
}

void replace(std::vector<TensorType>& types, int64_t from, int64_t to) {
  for (TensorType& type : types) std::replace(type.shape.begin(), type.shape.end(), from, to);
}

enum class Replaced { kTypes, kListsToo, kIntegersToo };

/// Gives the op another value for one extent, if its operator accepts it.
bool replace_extent(OwnedOp& op, int64_t from, int64_t to, Replaced what) {
  OwnedOp changed = op;
  replace(changed.inputs, from, to);
  for (const SizeAttribute& size : size_attributes(op.attributes))
    if (get(op.attributes, size) == from &&
        what >= (size.entry < 0 ? Replaced::kIntegersToo : Replaced::kListsToo))
      set(changed.attributes, size, to);
  std::vector<TensorType> expected = op.outputs;
  replace(expected, from, to);
  if (!infer_outputs(changed) || changed.outputs != expected) return false;
  op = std::move(changed);
  return true;
}

void shrink_extent(OwnedOp& op, int64_t extent, int64_t smallest) {
  const std::vector<int64_t> taken = extents_of(op);
  // Primes come first: they have no accidental divisors. The others are for operators that require
  // a multiple of a number.
  for (int64_t small : {5, 7, 11, 13, 17, 19, 31, 61, 6, 8, 12, 16, 24, 32, 64, 128}) {
    if (small < smallest || small >= extent ||
        std::find(taken.begin(), taken.end(), small) != taken.end())
      continue;
    for (Replaced what : {Replaced::kTypes, Replaced::kListsToo, Replaced::kIntegersToo})
      if (replace_extent(op, extent, small, what)) return;
  }
}

}  // namespace

OwnedOp shrink(OwnedOp op, const std::map<int64_t, int64_t>& smallest) {
  for (int64_t extent : extents_of(op)) {
    const auto given = smallest.find(extent);
    if (extent > kSmall) shrink_extent(op, extent, given == smallest.end() ? 0 : given->second);
  }
  return op;
}

}  // namespace tessera::detail
