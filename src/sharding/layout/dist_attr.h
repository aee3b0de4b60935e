// The placement of one tensor on a mesh, and its notations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/shared_vector.h"
#include "base/tensor/reduce_op.h"
#include "base/tensor/tensor.h"
#include "sharding/layout/mesh.h"

namespace tessera {

/// The placement of a tensor on one mesh axis.
struct Placement {
  enum class Kind { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;
  int dim = 0;                       // for kShard
  ReduceOp reduce = ReduceOp::kSum;  // for kPartial

  bool operator==(const Placement&) const = default;
};
Placement Shard(int dim);                             // NOLINT: the names of the literature
Placement Replicate();                                // NOLINT
Placement Partial(ReduceOp reduce = ReduceOp::kSum);  // NOLINT

/// The mesh axes that divide one dim, outermost first, and the unit that is never cut. With
/// windows, the axes divide another extent, and each rank holds the indices of this dim that its
/// part needs. Such parts may overlap, and may omit indices.
struct DimSharding {
  std::vector<int> axes;
  int64_t unit = 1;
  std::vector<Window> windows = {};  // each maps from the one before it; the last maps to this dim
  // equal pieces of the dim, each divided by the axes; a dim with chunks has no windows
  int64_t chunks = 1;

  bool operator==(const DimSharding&) const = default;
};

/// A mesh axis over which the tensor is Partial: the ranks hold unreduced values.
struct PartialAxis {
  int axis = 0;
  ReduceOp reduce = ReduceOp::kSum;

  bool operator==(const PartialAxis&) const = default;
};

/// The canonical form of a placement: per dim an ordered list of axes, and the partial axes in
/// ascending order. All other axes replicate.
///
///   invariant  an axis occurs at most once
struct DistAttr {
  MeshPtr mesh;
  SharedVector<DimSharding> dims;
  SharedVector<PartialAxis> partial;

  static DistAttr replicated(MeshPtr mesh, int rank);

  bool operator==(const DistAttr& other) const;
  bool is_replicated() const;
  bool uses(int axis) const;  // does it divide a dim or is it a partial axis?
  bool is_partial_on(int axis) const;
  /// Whether the axis divides a dim.
  bool is_sharded_on(int axis) const;
  /// The number of parts into which axes divide a dim; of a dim in chunks, those of each chunk.
  int64_t parts(int dim) const;
  /// The number of equal blocks of a dim of which every part has a whole number: the product of the
  /// sums of the weights of its axes, and parts(dim) without weights.
  int64_t blocks(int dim) const;
  /// Of `count` equal blocks of a dim, the number that a rank holds.
  ///   requires  count is a multiple of blocks(dim)
  LocalInt blocks_of_rank(int dim, int64_t count) const;
  bool has_windows() const;
  bool has_chunks() const;

  /// The split of dim `dim` of extent `extent`.
  Split split(int dim, int64_t extent) const;
  /// The box of a tensor of this shape that the rank at `coordinate` holds. Of a Partial tensor the
  /// rank holds unreduced values of that box.
  ///   requires  no chunks
  Box box(const Shape& shape, const Coordinate& coordinate) const;
  /// The same for tensors with chunks; empty when the rank holds nothing.
  std::vector<Piece> pieces(const Shape& shape, const Coordinate& coordinate) const;
  Shape local_shape(const Shape& shape, const Coordinate& coordinate) const;
  /// By dim, the index in the whole tensor of each local index.
  std::vector<std::vector<int64_t>> indices(const Shape& shape, const Coordinate& coordinate) const;
  /// The largest local extent of every dim; without windows it is the one of the rank at
  /// mesh->largest_shard_coordinate().
  Shape largest_shape(const Shape& shape) const;
  /// The placement of each axis, in the order of the mesh's axes.
  std::vector<Placement> placements() const;
};

/// The placement of the values after all pending reductions: a rank holds them whole where it held
/// partial ones.
DistAttr without_partial(DistAttr attr);

/// The text form of a tensor on a mesh, used in prints, errors, tests and plans:
///
///     f32[32@dp, 4096@tp] {partial sum: ep}
///     f32[32@dp@cp]                      several axes on one dim, dp outermost
///     f32[512@tp:64]                     cut only between units of 64 elements
///     f32[34@h~32(+0:+2)]                windows: h divides 32 rows; the rank of rows [b, e) holds
///                                        rows b to e + 2 of 34
///     f32[64@h~32(*2-1:+1)]              rows 2b - 1 to 2(e - 1) + 1 of 64; (/2-1:+1) halves, and
///                                        rounds inwards
///     f32[32@h~32(-1:+1)~32(-1:+1)]      a window of a window: the rows of the first, and one more
///                                        on either side
///     f32[3072@tp/3]                     three chunks of 1024, each divided by tp: q, k and v;
///                                        units are those of a chunk: 3072@tp:64/3
std::string to_text(const TensorType& type, const DistAttr& attr);
/// The same without extents and dtype: "[@dp, @tp] {partial sum: ep}"; a whole dim is "*".
std::string to_text(const DistAttr& attr);

/// The inverse of to_text(attr), for a tensor of this shape.
///   throws  UserError (78) as parse_dist_type, and for another number of dims
DistAttr parse_dist_attr(std::string_view text, const Shape& shape, MeshPtr mesh);
/// Refuses chunks and units that do not divide their dim, and a dim that an axis divides before the
/// micro-batches do. parse_dist_attr has done it.
///   throws  UserError (78)
void check_divisions(const DistAttr& attr, const Shape& shape);

struct DistType {
  TensorType type;
  DistAttr attr;
};
/// The inverse of to_text(type, attr).
///   throws  UserError (78) for malformed text, an axis that the mesh does not have (it lists the
///           axes), or an axis that is used twice
DistType parse_dist_type(std::string_view text, MeshPtr mesh);

/// From one placement per axis, in the order of the mesh's axes. Axes without a placement
/// replicate.
///   throws  UserError (78) for a dim that the tensor does not have
DistAttr from_placements(MeshPtr mesh, int rank, const std::vector<Placement>& placements);
/// From text per axis: "Shard(0), Replicate()", or by name in any order "tp: Shard(1), ep:
/// Partial(sum)". A position does not count the axis of micro-batches.
///   throws  UserError (78), also for an axis that is placed twice
DistAttr parse_placements(std::string_view text, MeshPtr mesh, int rank);

/// From text per dim, as in jax.P: each entry is "" or "None" (whole), an axis, or several axes
/// "dp,cp".
///   example  from_spec(mesh, {"dp", "", "tp"})
///   throws   UserError (78) for more entries than dims, an unknown axis, or an axis that is used
///            twice
DistAttr from_spec(MeshPtr mesh, int rank, const std::vector<std::string>& spec);
/// From a spec as text: P("dp", None, "tp"); P(("dp","cp"), None). P(3*"tp") divides dim 0 in three
/// chunks.
///   throws  UserError (78), also for an open dim
DistAttr parse_spec(std::string_view text, MeshPtr mesh, int rank);

/// A placement of which some dims are not decided.
struct OpenSpec {
  DistAttr attr;
  std::vector<bool> open;  // by dim: it may get axes after those of `attr`
};
std::string to_text(const OpenSpec& spec);  // "[?, @tp]"
/// As parse_spec, with open dims: P(?, "tp") says nothing of dim 0; P(("dp", ?)) that dp divides it
/// first.
OpenSpec parse_open_spec(std::string_view text, MeshPtr mesh, int rank);

/// From the number of parts of each dim of one operand, as in ((4,1),(1,1)). Each number is the
/// product of mesh axes that are not yet used, in the order of the mesh; that of micro-batches is
/// none of them.
///   throws  UserError (78) with the sizes of the axes when no product fits
DistAttr from_parts(MeshPtr mesh, const std::vector<int64_t>& parts);

}  // namespace tessera
