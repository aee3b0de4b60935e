// Meshes of logical ranks. Ranks are not devices: they are mapped to devices later, without a
// change of the mesh.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/dims.h"
#include "base/tensor/split.h"
#include "base/units.h"

namespace tessera {

/// The axis of time, which is the micro-batches of a step. It is the first axis of every mesh while
/// placements are decided, and divides dim 0 of every input.
inline constexpr std::string_view kMicroBatchAxis = "mb";
inline constexpr int kMicroBatchAxisIndex = 0;

/// The axes that a mesh of a plan may have: kMicroBatchAxis is one more.
inline constexpr int kMaxMeshAxes = kMaxRank - 1;

/// Whether `text` can be the name of a mesh or of an axis: a letter, then letters, digits or _.
bool can_name_mesh(std::string_view text);

/// By axis of a mesh, the weights of its parts; an axis without weights divides evenly.
using AxisWeights = std::vector<std::vector<int64_t>>;

/// An n-D grid of logical rank ids with named axes.
///
///     Mesh({3, 2}, {"x", "y"})   ranks 0..5: [[0,1],[2,3],[4,5]]
///
/// The parts of an axis may have weights: what the axis divides is divided in proportion to them
/// (weighted_part). The first device of dp=2:1 takes twice as many rows as the second.
class Mesh {
 public:
  /// `ranks` are in row-major order; empty: 0, 1, 2, ...
  /// `weights`: of each axis or empty. Only their ratios matter: 4:2 is 2:1, and equal ones are
  /// none.
  ///   throws  UserError (78) for an axis that is named twice or has no name, an extent below 1, a
  ///           rank that occurs twice, a wrong number of names, ranks or weights, a weight that is
  ///           not in [1, kMaxPartWeight], or weights of the micro-batch axis
  Mesh(Shape shape, std::vector<std::string> axes, std::vector<Rank> ranks = {},
       AxisWeights weights = {});

  const Shape& shape() const { return shape_; }
  const std::vector<std::string>& axes() const { return axes_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  int axis_count() const { return shape_.size(); }
  /// Of each axis; empty for an axis whose parts are equal.
  const AxisWeights& weights() const { return weights_; }
  bool is_weighted() const;
  /// The axis as a divisor of an extent.
  AxisPart axis_part(int axis) const;
  /// Whether two axes divide every extent into the same parts.
  bool divide_alike(int a, int b) const {
    return shape_[a] == shape_[b] && weights_[a] == weights_[b];
  }
  /// The sum of the weights of an axis; without weights its size.
  int64_t blocks(int axis) const { return axis_part(axis).blocks(); }

  /// The index of the axis called `name`.  throws  UserError (78) that lists the axes
  int axis(std::string_view name) const;
  /// nullopt when no axis has this name.
  std::optional<int> find_axis(std::string_view name) const;
  Rank rank_at(const Coordinate& coordinate) const;
  /// nullopt when the rank is not in the mesh.
  std::optional<Coordinate> coordinate_of(Rank rank) const;
  Coordinate coordinate_at(int index) const;  // of the index-th rank in row-major order
  /// On each axis, the first part of the greatest weight and the last of the least: the ranks that
  /// hold the most and the fewest elements of a tensor without windows. Without weights they are
  /// the first rank and the last one.
  Coordinate largest_shard_coordinate() const;
  Coordinate smallest_shard_coordinate() const;

  /// The same ranks in row-major order with other axes.
  ///   throws  UserError (78) when the sizes differ, or when the mesh has weights
  Mesh reshape(Shape shape, std::vector<std::string> axes) const;
  /// The ranks with `index` on `axis`, as a mesh without that axis.
  Mesh slice(std::string_view axis, int64_t index) const;

  bool operator==(const Mesh&) const = default;

 private:
  Shape shape_;
  std::vector<std::string> axes_;
  std::vector<Rank> ranks_;
  AxisWeights weights_;
};

using MeshPtr = std::shared_ptr<const Mesh>;

/// Is any rank in both?
bool share_ranks(const Mesh& a, const Mesh& b);

/// "dp=2 tp=2"; with ranks other than 0, 1, ...: "dp=2 tp=2 {4,5,6,7}"; two parts of weights 2 and
/// 1: "dp=2:1 tp=2".
std::string to_text(const Mesh& mesh);
/// Its axes as the user gave them, without that of micro-batches, for messages.
std::string given_text(const Mesh& mesh);
/// "dp=2" or "dp=2:1".
std::string axis_text(const Mesh& mesh, int axis);

/// Parses "dp=2 tp=2" (or "dp=2,tp=2", "dp2-tp2"), with weights "dp=2:1".
///   throws  UserError (78), also for more than kMaxMeshAxes axes
Mesh parse_mesh(std::string_view text);

}  // namespace tessera
