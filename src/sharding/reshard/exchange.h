// One communication operation between two placements of a tensor, and the collective that it is.
//
// This file knows the placements of both ends. It knows no costs (sharding/reshard/price.h) and no
// sequences of exchanges (sharding/reshard/reshard.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/tensor.h"
#include "sharding/layout/dist_attr.h"

namespace tessera {

enum class ReshardKind {
  kNone,
  /// Every rank holds what it needs.
  kSlice,
  /// The innermost axes of dims are removed.
  kAllGather,
  /// Partial values are reduced, and each rank receives its part of the result.
  kReduceScatter,
  /// Partial values are reduced, and each rank receives the whole result.
  kAllReduce,
  /// An axis moves from the end of one dim to the end of another.
  kAllToAll,
  /// Every rank receives the part of one other rank.
  kPermute,
  /// Windows become wider: every rank receives what its part lacks, mostly from its neighbours.
  kHalo,
  /// Any other pattern: the intersections of the boxes of both ends.
  kMessages,
};
/// "none", "slice", "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "permute", "halo",
/// "messages".
std::string_view to_text(ReshardKind kind);

/// One exchange: every receiver takes boxes of `from` and assembles its part of `to`. Over the
/// partial axes that `to` resolves it reduces the contributions in the order of their coordinates.
struct Exchange {
  ReshardKind kind = ReshardKind::kNone;
  DistAttr from;
  DistAttr to;
};

/// The collective of an exchange from `from` to `to`. Of a reduce-scatter and an all-gather
/// together that is all-reduce.
ReshardKind classify(const Shape& shape, const DistAttr& from, const DistAttr& to);
/// The exchange from `from` to `to`, with its kind.
Exchange classified(const Shape& shape, const DistAttr& from, const DistAttr& to);

/// The axes on which `from` is partial and `to` is not.
std::vector<PartialAxis> resolved_axes(const DistAttr& from, const DistAttr& to);
/// The axes on which `to` is partial and `from` is not.
///   throws  InternalError when an axis is partial in both with different reductions
std::vector<PartialAxis> started_axes(const DistAttr& from, const DistAttr& to);
/// The names of the mesh axes over which the placement changes; none between two meshes.
std::vector<std::string> changed_axes(const Exchange& exchange);
bool on_one_mesh(const DistAttr& a, const DistAttr& b);

}  // namespace tessera
