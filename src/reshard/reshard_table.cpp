#include "reshard/reshard_table.h"

#include "base/hash.h"

namespace tessera {
namespace {

/// Equal placements give equal hashes: of a dim that is not divided, only that matters.
void add(Hasher& hasher, const DistAttr& attr) {
  hasher.add(attr.mesh.get());
  for (const DimSharding& dim : attr.dims) {
    hasher.add_each(dim.axes);
    if (dim.axes.empty()) continue;
    hasher.add(dim.unit);
    hasher.add(dim.chunks);
    hasher.add(dim.windows.size());
  }
  for (const PartialAxis& partial : attr.partial) hasher.add(partial.axis);
}

}  // namespace

bool ReshardKey::operator==(const ReshardKey& other) const {
  return type == other.type && from.mesh == other.from.mesh && to.mesh == other.to.mesh &&
         from == other.from && to == other.to;
}

size_t ReshardKeyHash::operator()(const ReshardKey& key) const {
  Hasher hasher;
  hasher.add(key.type.dtype);
  hasher.add_each(key.type.shape);
  add(hasher, key.from);
  add(hasher, key.to);
  return hasher.value();
}

}  // namespace tessera
