#include "sharding/reshard/reshard_table.h"

#include "sharding/layout/dist_attr_hash.h"

namespace tessera {
bool ReshardKey::operator==(const ReshardKey& other) const {
  return type == other.type && from.mesh == other.from.mesh && to.mesh == other.to.mesh &&
         from == other.from && to == other.to;
}

size_t ReshardKeyHash::operator()(const ReshardKey& key) const {
  Hasher hasher;
  hasher.add(key.type.dtype);
  hasher.add_each(key.type.shape);
  for (const DistAttr* attr : {&key.from, &key.to}) {
    hasher.add(attr->mesh.get());
    add_placement(hasher, *attr);
  }
  return hasher.value();
}

}  // namespace tessera
