// Meshes of logical ranks. Ranks are not devices: they are mapped to devices later, which
// changes nothing here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/split.h"
#include "base/units.h"

namespace tessera {

/// An n-D grid of logical rank ids with named axes.
///
///     Mesh({3, 2}, {"x", "y"})   ranks 0..5: [[0,1],[2,3],[4,5]]
class Mesh {
 public:
  /// `ranks` in row-major order; empty: 0, 1, 2, ...
  ///   throws  UserError (78): an axis named twice or without name, an extent below 1, a rank
  ///   twice,
  ///           other than one name an axis or one rank a coordinate
  Mesh(Shape shape, std::vector<std::string> axes, std::vector<Rank> ranks = {});

  const Shape& shape() const { return shape_; }
  const std::vector<std::string>& axes() const { return axes_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  int axis_count() const { return shape_.size(); }

  /// Index of the axis called `name`.  throws  UserError (78) that lists the axes
  int axis(std::string_view name) const;
  /// nullopt when no axis has this name.
  std::optional<int> find_axis(std::string_view name) const;
  Rank rank_at(const Coordinate& coordinate) const;
  /// nullopt when the rank is not in the mesh.
  std::optional<Coordinate> coordinate_of(Rank rank) const;
  Coordinate coordinate_at(int index) const;  // of the index-th rank in row-major order

  /// The same ranks in row-major order under other axes.  throws  UserError (78) when the sizes
  /// differ
  Mesh reshape(Shape shape, std::vector<std::string> axes) const;
  /// The ranks with `index` on `axis`, as a mesh without that axis.
  Mesh slice(std::string_view axis, int64_t index) const;

  bool operator==(const Mesh&) const = default;

 private:
  Shape shape_;
  std::vector<std::string> axes_;
  std::vector<Rank> ranks_;
};

using MeshPtr = std::shared_ptr<const Mesh>;

/// Is any rank in both?
bool share_ranks(const Mesh& a, const Mesh& b);

/// "dp=2 tp=2"; with ranks other than 0, 1, ...: "dp=2 tp=2 {4,5,6,7}".
std::string to_text(const Mesh& mesh);

/// Reads "dp=2 tp=2" (or "dp=2,tp=2", "dp2-tp2").  throws  UserError (78)
Mesh parse_mesh(std::string_view text);

}  // namespace tessera
