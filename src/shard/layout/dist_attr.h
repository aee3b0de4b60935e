// The placement of one tensor on a mesh, and the notations for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/reduce_op.h"
#include "base/tensor.h"
#include "shard/layout/mesh.h"

namespace tessera {

/// The placement of a tensor on one mesh axis.
struct Placement {
  enum class Kind { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;
  int dim = 0;                       // of kShard
  ReduceOp reduce = ReduceOp::kSum;  // of kPartial

  bool operator==(const Placement&) const = default;
};
Placement Shard(int dim);                             // NOLINT: the field's names
Placement Replicate();                                // NOLINT
Placement Partial(ReduceOp reduce = ReduceOp::kSum);  // NOLINT

/// The mesh axes that divide one dim, outermost first, and the unit inside which it is never cut.
/// With windows the axes divide another extent, and each rank holds the indices of this dim that
/// its part needs: such parts may overlap, and may omit indices.
struct DimSharding {
  std::vector<int> axes;
  int64_t unit = 1;
  std::vector<Window> windows = {};  // each of the one before it; the last to this dim
  int64_t chunks = 1;  // equal pieces of the dim, each divided by the axes; chunks have no windows

  bool operator==(const DimSharding&) const = default;
};

/// A mesh axis over which the tensor is Partial: the ranks hold values that are still to be
/// reduced.
struct PartialAxis {
  int axis = 0;
  ReduceOp reduce = ReduceOp::kSum;

  bool operator==(const PartialAxis&) const = default;
};

/// The canonical form: per dim an ordered list of axes, the partial axes in ascending order; every
/// other axis replicates.
///
///   invariant  an axis occurs at most once
struct DistAttr {
  MeshPtr mesh;
  std::vector<DimSharding> dims;
  std::vector<PartialAxis> partial;

  static DistAttr replicated(MeshPtr mesh, int rank);

  bool operator==(const DistAttr& other) const;
  bool is_replicated() const;
  bool uses(int axis) const;  // to divide a dim or as a partial axis
  bool is_partial_on(int axis) const;
  /// Whether the axis divides a dim.
  bool is_sharded_on(int axis) const;
  /// The number of parts into which axes divide a dim; of a dim in chunks, those of each chunk.
  int64_t parts(int dim) const;
  bool has_windows() const;
  bool has_chunks() const;

  /// How dim `dim` of extent `extent` is divided.
  Split split(int dim, int64_t extent) const;
  /// The box of a tensor of this shape that the rank at `coordinate` holds; of a Partial tensor it
  /// holds unreduced values of that box.
  ///   requires  no chunks
  Box box(const Shape& shape, const Coordinate& coordinate) const;
  /// The same, with chunks; empty when the rank holds nothing.
  std::vector<Piece> pieces(const Shape& shape, const Coordinate& coordinate) const;
  Shape local_shape(const Shape& shape, const Coordinate& coordinate) const;
  /// By dim, the index in the whole tensor of each local index.
  std::vector<std::vector<int64_t>> indices(const Shape& shape, const Coordinate& coordinate) const;
  /// The largest local extent of every dim; without windows that of the rank at the origin.
  Shape largest_shape(const Shape& shape) const;
  /// The placement of each axis, in the order of the mesh's axes.
  std::vector<Placement> placements() const;
};

/// The text form of a tensor on a mesh, used in prints, errors, tests and plans:
///
///     f32[32@dp, 4096@tp] {partial sum: ep}
///     f32[32@dp@cp]                      several axes on one dim, dp outermost
///     f32[512@tp:64]                     cut in units of 64 elements only
///     f32[34@h~32(+0:+2)]                windows: h divides 32 rows; the rank of rows [b, e) holds
///                                        rows b to e + 2 of 34
///     f32[64@h~32(*2-1:+1)]              rows 2b - 1 to 2(e - 1) + 1 of 64; (/2-1:+1) halves, and
///                                        rounds inwards
///     f32[32@h~32(-1:+1)~32(-1:+1)]      a window of a window: the rows of the first, and one more
///                                        on either side
///     f32[3072@tp/3]                     three chunks of 1024, each divided by tp: q, k and v;
///     units
///                                        are of a chunk: 3072@tp:64/3
std::string to_text(const TensorType& type, const DistAttr& attr);
/// Without extents and dtype: "[@dp, @tp] {partial sum: ep}"; a whole dim is "*".
std::string to_text(const DistAttr& attr);

struct DistType {
  TensorType type;
  DistAttr attr;
};
/// Inverse of to_text(type, attr).
///   throws  UserError (78): malformed text, an axis that the mesh does not have (lists them), an
///           axis used twice
DistType parse_dist_type(std::string_view text, MeshPtr mesh);

/// One placement an axis, in the order of the mesh's axes; axes without one replicate.
///   throws  UserError (78): a dim that the tensor does not have
DistAttr from_placements(MeshPtr mesh, int rank, const std::vector<Placement>& placements);
/// Per-axis text: "Shard(0), Replicate()", or by name in any order "tp: Shard(1), ep:
/// Partial(sum)".
///   throws  UserError (78)
DistAttr parse_placements(std::string_view text, MeshPtr mesh, int rank);

/// Per dim, as in jax.P: each entry "" or "None" (whole), an axis, or several "dp,cp".
///   example  from_spec(mesh, {"dp", "", "tp"})
///   throws   UserError (78): more entries than dims, an unknown axis, an axis used twice
DistAttr from_spec(MeshPtr mesh, int rank, const std::vector<std::string>& spec);
/// P("dp", None, "tp"); P(("dp","cp"), None).  throws  UserError (78)
DistAttr parse_spec(std::string_view text, MeshPtr mesh, int rank);

/// Parts per dim of one operand, as in ((4,1),(1,1)): each count is the product of mesh axes not
/// yet used, in mesh order.
///   throws  UserError (78) that names the sizes of the axes when no product fits
DistAttr from_parts(MeshPtr mesh, const std::vector<int64_t>& parts);

}  // namespace tessera
