// Facts about reshards, each found once: many tensors of a program have one type and are resharded
// alike.
#pragma once

#include <unordered_map>

#include "base/tensor/tensor.h"
#include "sharding/layout/dist_attr.h"

namespace tessera {

/// A tensor type and two placements. Placements on equal meshes at different addresses are
/// different: exchanges name the mesh.
struct ReshardKey {
  TensorType type;
  DistAttr from, to;

  bool operator==(const ReshardKey& other) const;
};
struct ReshardKeyHash {
  size_t operator()(const ReshardKey& key) const;
};

/// threads  one caller at a time
template <class Fact>
class ReshardTable {
 public:
  /// The fact about a reshard, which `find_out()` returns the first time. The reference is valid as
  /// long as this object.
  template <class FindOut>
  const Fact& get(const TensorType& type, const DistAttr& from, const DistAttr& to,
                  const FindOut& find_out) {
    ReshardKey key{type, from, to};
    const auto known = known_.find(key);
    return known != known_.end() ? known->second
                                 : known_.emplace(std::move(key), find_out()).first->second;
  }

 private:
  std::unordered_map<ReshardKey, Fact, ReshardKeyHash> known_;
};

}  // namespace tessera
