// The reshards of a program, each planned once: many values have one type and are resharded alike.
#pragma once

#include <unordered_map>
#include <vector>

#include "reshard/reshard.h"

namespace tessera {

/// A plan, and what it costs.
struct PricedReshard {
  std::vector<Exchange> exchanges;
  int64_t sent_bytes = 0;  // received by the rank that receives most
};

/// threads  one caller at a time
class ReshardPlans {
 public:
  explicit ReshardPlans(ReshardOptions options) : options_(std::move(options)) {}

  /// plan_reshard of these arguments. The reference is valid as long as this object.
  ///   time  that of plan_reshard the first time, then O(dims)
  const PricedReshard& plan(const TensorType& type, const DistAttr& from, const DistAttr& to);

 private:
  struct Key {
    TensorType type;
    DistAttr from, to;
    /// Placements on equal meshes of different devices are different: exchanges name the mesh.
    bool operator==(const Key& other) const;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };

  PricedReshard priced(const TensorType& type, const DistAttr& from, const DistAttr& to) const;

  const ReshardOptions options_;
  std::unordered_map<Key, PricedReshard, Hash> known_;
};

}  // namespace tessera
