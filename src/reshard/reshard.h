// From one placement to another: which rank receives which box from whom. Everything is exact
// overlaps of boxes; the collectives are recognised cases of it. Functions of the receiver, never
// tables over all pairs of ranks.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/split.h"
#include "base/tensor.h"
#include "base/units.h"
#include "shard/layout/dist_attr.h"

namespace tessera {

enum class ReshardKind {
  kNone,
  kSlice,          // every rank has what it needs
  kAllGather,      // the innermost axes of dims are taken away
  kReduceScatter,  // addends are summed, each rank its own part
  kAllReduce,      // addends are summed, every rank all
  kAllToAll,       // an axis goes from the end of one dim to the end of another
  kPermute,        // every rank takes the part of one other
  kHalo,      // windows widen: every rank takes what its own part lacks, mostly from its neighbours
  kMessages,  // anything else: exact overlaps
};
std::string_view to_text(
    ReshardKind kind);  // "none", "slice", "all-gather", "reduce-scatter", "all-reduce",
                        // "all-to-all", "permute", "halo", "messages"

/// One exchange: every receiver pulls boxes of `from` and puts `to` together, adding (or taking the
/// maximum, ...) the contributions of the partial axes that `to` resolves, in the order of their
/// coordinates.
struct Exchange {
  ReshardKind kind = ReshardKind::kNone;
  DistAttr from;
  DistAttr to;
};

/// A box that a receiver takes from one sender. `first` marks the first contribution to its
/// elements: it is copied, later ones are reduced into it.
struct Pull {
  Rank sender = 0;
  Box box;  // in the coordinates of the whole tensor
  bool first = true;
  ReduceOp reduce = ReduceOp::kSum;

  bool operator==(const Pull&) const = default;
};

/// What an exchange is priced with: a latency for each rank that the busiest one talks to, and
/// the bytes that it receives or sends.
struct LinkCost {
  Seconds latency{1e-6};  // those of threads of one machine
  double bytes_per_second = 5e9;
};

/// How addends over several axes are put together.
enum class AllReduceAlgorithm {
  kAuto,                    // the cheapest of these
  kOneShot,                 // in one round: each rank takes all addends of what it wants
  kReduceScatterAllGather,  // each rank takes all addends of its share; then the shares are
                            // gathered
  kHierarchical,  // a reduce-scatter an axis, the innermost first, and all-gathers back: over nodes
                  // and devices the two-level sum, over axes of two ranks recursive halving and
                  // doubling
};
std::string_view to_text(AllReduceAlgorithm form);  // "auto", "one-shot", ...

struct ReshardOptions {
  LinkCost link = {};                         // between any two ranks
  std::map<std::string, LinkCost> axes = {};  // by name of a mesh axis: between ranks of one
                                              // mesh that differ on it; of several the dearest
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::kAuto;

  /// Between ranks that differ on `axis`.
  const LinkCost& on(const Mesh& mesh, int axis) const;
};

/// The exchanges that turn `from` into `to`, in order; none when they are equal. Of several ways
/// the cheapest: messages in one round, which receive the fewest bytes; a chain of collectives over
/// one axis each, which talk to fewer ranks; for addends those of AllReduceAlgorithm; onto a mesh
/// that wants copies, one copy in parts and an all-gather there.
///
///   ensures  the result is `to`; no intermediate is larger than the larger of source and target,
///   but for rounding of uneven parts partial  what is a Partial of both by two reductions is put
///   together between them source   chains: Rink et al., arXiv 2112.01075 (slices, then all-to-alls
///   and permutes, then all-gathers), found by shortest path; sums
///            axis by axis: Thakur, Rabenseifner and Gropp 2005
std::vector<Exchange> plan_reshard(const TensorType& type, const DistAttr& from, const DistAttr& to,
                                   const ReshardOptions& options = {});

/// Seconds of one exchange: of the ranks of both meshes the busiest; of more than 64 a spread
/// sample.
Seconds price(const TensorType& type, const Exchange& exchange, const ReshardOptions& options = {});

/// The name of the whole way: what a reader would call it, such as all-reduce for reduce-scatter +
/// all-gather.
ReshardKind classify(const Shape& shape, const DistAttr& from, const DistAttr& to);

/// Do the ranks of `from` together hold what each of `to` wants? Always, unless a window of
/// `from` leaves something out.
bool holds_all_of(const Shape& shape, const DistAttr& from, const DistAttr& to);

/// What `receiver` pulls, its own part too, ordered by box and then by contribution.
///   requires holds_all_of(shape, exchange.from, exchange.to)
///   ensures  the boxes whose `first` is set tile the receiver's box of `to`; of holders that
///   overlap the receiver itself is taken first; nothing is pulled by a rank that starts a new
///   Partial at a
///            coordinate other than 0: it holds the identity
std::vector<Pull> pulls(const Shape& shape, const Exchange& exchange, Rank receiver);

/// Elements that `receiver` must get from others whatever the way: those of its target part that it
/// does not hold. Of sums over n ranks that end in parts, (n-1)/n of what the group holds each;
/// the same again for what all of them want whole.
///   source   reference text in docs/sharding.md; Patarasuk and Yuan 2009 for sums
int64_t least_received_elements(const Shape& shape, const DistAttr& from, const DistAttr& to,
                                Rank receiver);

/// Elements that `receiver` gets from other ranks.
int64_t received_elements(const Shape& shape, const std::vector<Exchange>& exchanges,
                          Rank receiver);

}  // namespace tessera
