// The reshards of a program, each planned once.
#pragma once

#include <utility>
#include <vector>

#include "sharding/reshard/reshard.h"
#include "sharding/reshard/reshard_table.h"

namespace tessera {

/// A plan, and what it costs.
struct PricedReshard {
  std::vector<Exchange> exchanges;
  Seconds time{0};         // of all of them, one after the other
  int64_t sent_bytes = 0;  // received by the rank that receives most
};

/// The receivers of which one receives most, or nearly so. Without weights the first rank holds the
/// largest parts, and the last differs from it on every axis. With weights any rank may receive
/// most: at most 64 are examined.
std::vector<Rank> examined_receivers(const Mesh& mesh);

/// threads  one caller at a time
class ReshardPlans {
 public:
  explicit ReshardPlans(ReshardOptions options) : options_(std::move(options)) {}

  /// plan_reshard of these arguments. The reference is valid as long as this object.
  ///   time  that of plan_reshard the first time, then O(dims)
  const PricedReshard& plan(const TensorType& type, const DistAttr& from, const DistAttr& to);

 private:
  const ReshardOptions options_;
  ReshardTable<PricedReshard> known_;
};

}  // namespace tessera
