// From one placement to another: which process receives which box from whom. Everything is exact overlaps of boxes; the collectives are
// recognised cases of it. Functions of the receiver, never tables over all pairs of processes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/split.h"
#include "base/tensor.h"
#include "shard/dist_attr.h"

namespace tessera {

enum class ReshardKind { kNone, kSlice, kAllGather, kReduceScatter, kAllReduce, kAllToAll, kMessages };
std::string_view to_text(ReshardKind kind);  // "none", "slice", "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "messages"

/// One exchange: every receiver pulls boxes of `from` and puts `to` together, adding (or taking the maximum, ...) the contributions of the
/// partial axes that `to` resolves, in the order of their coordinates.
struct Exchange {
  ReshardKind kind = ReshardKind::kNone;
  DistAttr from;
  DistAttr to;
};

/// A box that a receiver takes from one sender. `first` marks the first contribution to its elements: it is copied, later ones are reduced
/// into it.
struct Pull {
  Rank sender = 0;
  Box box;  // in the coordinates of the whole tensor
  bool first = true;
  ReduceOp reduce = ReduceOp::kSum;

  bool operator==(const Pull&) const = default;
};

/// The exchanges that turn `from` into `to`, in order; none when they are equal.
///
///   ensures  the result is `to`; no intermediate is larger than the larger of source and target; an all-reduce of more than a few
///   kilobytes is a
///            reduce-scatter and an all-gather
///   throws   InternalError when a Partial would change its kind
std::vector<Exchange> plan_reshard(const TensorType& type, const DistAttr& from, const DistAttr& to);

/// The name of the whole way: what a reader would call it, such as all-reduce for reduce-scatter + all-gather.
ReshardKind classify(const Shape& shape, const DistAttr& from, const DistAttr& to);

/// What `receiver` pulls, its own part too, ordered by box and then by contribution.
///   ensures  the boxes whose `first` is set tile the receiver's box of `to`; nothing is pulled by a process that starts a new Partial at a
///   coordinate
///            other than 0: it holds the identity
std::vector<Pull> pulls(const Shape& shape, const Exchange& exchange, Rank receiver);

/// Elements that `receiver` gets from other processes.
int64_t received_elements(const Shape& shape, const std::vector<Exchange>& exchanges, Rank receiver);

}  // namespace tessera
