// Meshes of logical processes. They are not devices: mapping processes to devices comes later and
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

/// An n-D grid of logical process ids with named axes.
///
///     ProcessMesh({3, 2}, {"x", "y"})   processes 0..5: [[0,1],[2,3],[4,5]]
class ProcessMesh {
 public:
  /// `processes` in row-major order; empty: 0, 1, 2, ...
  /// throws  UserError (78): an axis named twice or without name, an extent below 1, a process
  /// twice, as many names as axes wanted
  ProcessMesh(Shape shape, std::vector<std::string> axes, std::vector<Rank> processes = {});

  const Shape& shape() const { return shape_; }
  const std::vector<std::string>& axes() const { return axes_; }
  const std::vector<Rank>& processes() const { return processes_; }
  int size() const { return static_cast<int>(processes_.size()); }
  int axis_count() const { return shape_.size(); }

  /// Index of the axis called `name`.  throws  UserError (78) that lists the axes
  int axis(std::string_view name) const;
  Rank process_at(const Coordinate& coordinate) const;
  /// nullopt when the process is not in the mesh.
  std::optional<Coordinate> coordinate_of(Rank process) const;
  Coordinate coordinate_at(int index) const;  // of the index-th process in row-major order

  /// The same processes in row-major order under other axes.  throws  UserError (78) when the sizes
  /// differ
  ProcessMesh reshape(Shape shape, std::vector<std::string> axes) const;
  /// The processes with `index` on `axis`; that axis vanishes.
  ProcessMesh slice(std::string_view axis, int64_t index) const;

  bool operator==(const ProcessMesh&) const = default;

 private:
  Shape shape_;
  std::vector<std::string> axes_;
  std::vector<Rank> processes_;
};

using MeshPtr = std::shared_ptr<const ProcessMesh>;

/// "dp=2 tp=2"; with processes other than 0, 1, ...: "dp=2 tp=2 {4,5,6,7}".
std::string to_text(const ProcessMesh& mesh);

/// Reads "dp=2 tp=2" (or "dp=2,tp=2", "dp2-tp2").  throws  UserError (78)
ProcessMesh parse_mesh(std::string_view text);

}  // namespace tessera
