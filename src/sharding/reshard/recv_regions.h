// Which boxes a receiver takes from which rank: the intersections of what it wants with what the
// others hold. A function of the receiver, never a table over all pairs of ranks.
#pragma once

#include <vector>

#include "base/tensor/split.h"
#include "base/units.h"
#include "sharding/reshard/exchange.h"

namespace tessera {

/// A box that a receiver takes from one sender.
struct RecvRegion {
  Rank sender = 0;
  /// In the coordinates of the whole tensor.
  Box box;
  /// The first contribution to the elements of the box is copied, later ones are reduced into it.
  bool first = true;
  ReduceOp reduce = ReduceOp::kSum;

  bool operator==(const RecvRegion&) const = default;
};

/// Whether the ranks of `from` together hold what each rank of `to` wants. They do unless a window
/// of `from` omits something.
bool holds_all_of(const Shape& shape, const DistAttr& from, const DistAttr& to);

/// What `receiver` takes, its own part included, ordered by box and then by contribution.
///   requires  holds_all_of(shape, exchange.from, exchange.to)
///   ensures   the boxes whose `first` is set tile the receiver's box of `to`; of several holders
///             of a box the receiver itself comes first; a rank whose coordinate on an axis that
///             becomes partial is not 0 takes nothing, because it holds the identity
std::vector<RecvRegion> recv_regions(const Shape& shape, const Exchange& exchange, Rank receiver);

/// The size of a recv region.
struct RecvElements {
  Rank sender = 0;
  int64_t count = 0;
};
/// By recv region, in the order of recv_regions(shape, exchange, receiver), in less time.
std::vector<RecvElements> recv_elements(const Shape& shape, const Exchange& exchange,
                                        Rank receiver);

/// A lower bound of the elements that `receiver` gets from others, by any sequence of exchanges:
/// the elements of its target part that it does not hold. Of a sum over n ranks that ends in parts
/// it is (n-1)/n of what the group holds; where all ranks want the whole sum, the same once more.
///   source  docs/sharding.md; for sums Patarasuk and Yuan 2009
int64_t min_received_elements(const Shape& shape, const DistAttr& from, const DistAttr& to,
                              Rank receiver);

/// The elements that `receiver` gets from other ranks.
int64_t received_elements(const Shape& shape, const std::vector<Exchange>& exchanges,
                          Rank receiver);

}  // namespace tessera
