// From one placement to another: which process receives which box from whom. Everything is exact overlaps of boxes; the collectives are
// recognised cases of it. Functions of the receiver, never tables over all pairs of processes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/split.h"
#include "base/tensor.h"
#include "base/units.h"
#include "shard/dist_attr.h"

namespace tessera {

enum class ReshardKind {
  kNone,
  kSlice,          // every process has what it needs
  kAllGather,      // the innermost axes of dims are taken away
  kReduceScatter,  // addends are summed, each process its own part
  kAllReduce,      // addends are summed, every process all
  kAllToAll,       // an axis goes from the end of one dim to the end of another
  kPermute,        // every process takes the part of one other
  kHalo,           // windows widen: every process takes what its own part lacks, mostly from its neighbours
  kMessages,       // anything else: exact overlaps
};
std::string_view to_text(
    ReshardKind kind);  // "none", "slice", "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "permute", "halo", "messages"

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

/// What an exchange is priced with: a latency for each process that the busiest one talks to, and the bytes that it receives or sends.
struct LinkCost {
  Seconds latency{1e-6};  // those of threads of one machine
  double bytes_per_second = 5e9;
};

/// The exchanges that turn `from` into `to`, in order; none when they are equal. Of several ways the cheapest: messages in one round, which
/// receive the fewest bytes; a chain of collectives over one axis each, which talk to fewer processes; for addends reduce-scatter and
/// all-gather; onto a mesh that wants copies, one copy in parts and an all-gather there.
///
///   ensures  the result is `to`; no intermediate is larger than the larger of source and target, but for rounding of uneven parts
///   partial  what is a Partial of both by two reductions is put together between them
///   source   chains: Rink et al., arXiv 2112.01075 (slices, then all-to-alls and permutes, then all-gathers), found by shortest path
std::vector<Exchange> plan_reshard(const TensorType& type, const DistAttr& from, const DistAttr& to, const LinkCost& link = {});

/// Seconds of one exchange by `link`: of the processes of both meshes the busiest; of more than 64 a spread sample.
Seconds price(const TensorType& type, const Exchange& exchange, const LinkCost& link);

/// The name of the whole way: what a reader would call it, such as all-reduce for reduce-scatter + all-gather.
ReshardKind classify(const Shape& shape, const DistAttr& from, const DistAttr& to);

/// Do the processes of `from` together hold what each of `to` wants? Always, unless a window of `from` leaves something out.
bool holds_all_of(const Shape& shape, const DistAttr& from, const DistAttr& to);

/// What `receiver` pulls, its own part too, ordered by box and then by contribution.
///   requires holds_all_of(shape, exchange.from, exchange.to)
///   ensures  the boxes whose `first` is set tile the receiver's box of `to`; of holders that overlap the receiver itself is taken first; nothing is pulled by a process that starts a new Partial at a
///            coordinate other than 0: it holds the identity
std::vector<Pull> pulls(const Shape& shape, const Exchange& exchange, Rank receiver);

/// Elements that `receiver` must get from others whatever the way: those of its target part that it does not hold. Of sums over n
/// processes that end in parts, (n-1)/n of what the group holds each; the same again for what all of them want whole.
///   source   reference text in docs/sharding.md; Patarasuk and Yuan 2009 for sums
int64_t least_received_elements(const Shape& shape, const DistAttr& from, const DistAttr& to, Rank receiver);

/// Elements that `receiver` gets from other processes.
int64_t received_elements(const Shape& shape, const std::vector<Exchange>& exchanges, Rank receiver);

}  // namespace tessera
