// The communication that turns one placement of a tensor into another: the choice between one
// exchange and several. An exchange is the intersection of the boxes of both ends; the collectives
// are recognised cases of it.
#pragma once

#include <vector>

#include "base/tensor/tensor.h"
#include "sharding/layout/dist_attr.h"
#include "sharding/reshard/exchange.h"
#include "sharding/reshard/price.h"
#include "sharding/reshard/recv_regions.h"

namespace tessera {

/// The cheapest sequence of exchanges that turns `from` into `to`; empty when they are equal. The
/// candidates are
///
///   one exchange          one round with the fewest received bytes
///   a chain               collectives over one axis each, which communicate with fewer ranks
///   level by level        a gather over the outer axes of a dim first, a reduce-scatter over the
///                         inner ones
///   all-reduce            where partial values are resolved: those of AllReduceAlgorithm
///   reductions first      the sums, in parts where the target has them, and then the cheapest way
///   scatter + all-gather  onto another mesh with copies: each part is sent once, and the copies
///                         are made there
///
///   ensures  the result is `to`; no intermediate is larger than the larger of source and target,
///            except for rounding of uneven parts; an axis that is partial in both with different
///            reductions is reduced between them
///   source   chains: Rink et al., arXiv 2112.01075 (slices, then all-to-alls and permutes, then
///            all-gathers), found as a shortest path
std::vector<Exchange> plan_reshard(const TensorType& type, const DistAttr& from, const DistAttr& to,
                                   const ReshardOptions& options = {});

}  // namespace tessera
