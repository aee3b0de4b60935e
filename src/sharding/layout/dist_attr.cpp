#include "sharding/layout/dist_attr.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tessera {

Placement Shard(int dim) {
  return {Placement::Kind::kShard, dim, ReduceOp::kSum};
}
Placement Replicate() {
  return {};
}
Placement Partial(ReduceOp reduce) {
  return {Placement::Kind::kPartial, 0, reduce};
}

DistAttr DistAttr::replicated(MeshPtr mesh, int rank) {
  return {std::move(mesh), std::vector<DimSharding>(static_cast<size_t>(rank)), {}};
}

bool DistAttr::operator==(const DistAttr& other) const {
  if (dims.size() != other.dims.size() || partial != other.partial) return false;
  for (size_t d = 0; d < dims.size(); ++d) {
    // Units, windows and chunks do not matter for a dim that is not divided.
    if (dims[d].axes.empty() ? !other.dims[d].axes.empty() : !(dims[d] == other.dims[d]))
      return false;
  }
  return mesh == other.mesh || (mesh && other.mesh && *mesh == *other.mesh);
}

bool DistAttr::is_replicated() const {
  return partial.empty() && std::all_of(dims.begin(), dims.end(),
                                        [](const DimSharding& dim) { return dim.axes.empty(); });
}

bool DistAttr::uses(int axis) const {
  return is_sharded_on(axis) || is_partial_on(axis);
}

bool DistAttr::is_sharded_on(int axis) const {
  return std::any_of(dims.begin(), dims.end(), [&](const DimSharding& dim) {
    return std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end();
  });
}

bool DistAttr::is_partial_on(int axis) const {
  return std::any_of(partial.begin(), partial.end(),
                     [&](const PartialAxis& p) { return p.axis == axis; });
}

Split DistAttr::split(int dim, int64_t extent) const {
  const DimSharding& sharding = dims[dim];
  if (sharding.axes.empty()) return {extent, 1, {}};
  ensure(sharding.windows.empty() || sharding.windows.back().to == extent,
         "the last window of a dim is of its extent");
  const int64_t divided = sharding.windows.empty() ? extent : sharding.windows.front().from;
  ensure(divided % (sharding.chunks * sharding.unit) == 0,
         "unit and chunks of a divided dim divide its extent");
  Split split{divided / sharding.chunks / sharding.unit,
              sharding.unit,
              {},
              sharding.windows,
              sharding.chunks};
  for (int axis : sharding.axes) split.axes.push_back(mesh->axis_part(axis));
  return split;
}

Box DistAttr::box(const Shape& shape, const Coordinate& coordinate) const {
  Box box;
  for (int d = 0; d < shape.size(); ++d)
    box.ranges.push_back(split(d, shape[d]).range_at(coordinate));
  return box;
}

std::vector<Piece> DistAttr::pieces(const Shape& shape, const Coordinate& coordinate) const {
  std::vector<Split> splits;
  for (int d = 0; d < shape.size(); ++d) splits.push_back(split(d, shape[d]));
  return pieces_at(splits, coordinate);
}

Shape DistAttr::local_shape(const Shape& shape, const Coordinate& coordinate) const {
  Shape local;
  for (int d = 0; d < shape.size(); ++d)
    local.push_back(LocalInt::size_of(split(d, shape[d])).at(coordinate));
  return local;
}

std::vector<std::vector<int64_t>> DistAttr::indices(const Shape& shape,
                                                    const Coordinate& coordinate) const {
  std::vector<std::vector<int64_t>> by_dim(shape.size());
  for (int d = 0; d < shape.size(); ++d)
    for (const Range& range : split(d, shape[d]).ranges_at(coordinate))
      for (int64_t i = range.begin; i < range.end; ++i) by_dim[d].push_back(i);
  return by_dim;
}

Shape DistAttr::largest_shape(const Shape& shape) const {
  Shape local;
  for (int d = 0; d < shape.size(); ++d) local.push_back(split(d, shape[d]).largest());
  return local;
}

int64_t DistAttr::parts(int dim) const {
  int64_t count = 1;
  for (int axis : dims.at(dim).axes) count *= mesh->shape()[axis];
  return count;
}

int64_t DistAttr::blocks(int dim) const {
  int64_t count = 1;
  for (int axis : dims.at(dim).axes) {
    const int64_t more = mesh->blocks(axis);
    if (count > std::numeric_limits<int32_t>::max() / more)
      return std::numeric_limits<int32_t>::max();  // more blocks than a dim is ever divided into
    count *= more;
  }
  return count;
}

LocalInt DistAttr::blocks_of_rank(int dim, int64_t count) const {
  if (blocks(dim) == parts(dim)) return count / parts(dim);
  Split split{count, 1, {}};
  for (int axis : dims[dim].axes) split.axes.push_back(mesh->axis_part(axis));
  return LocalInt::size_of(std::move(split));
}

bool DistAttr::has_windows() const {
  return std::any_of(dims.begin(), dims.end(), [](const DimSharding& dim) {
    return !dim.axes.empty() && !dim.windows.empty();
  });
}

bool DistAttr::has_chunks() const {
  return std::any_of(dims.begin(), dims.end(),
                     [](const DimSharding& dim) { return !dim.axes.empty() && dim.chunks > 1; });
}

std::vector<Placement> DistAttr::placements() const {
  std::vector<Placement> result(mesh->axis_count());
  for (int d = 0; d < std::ssize(dims); ++d)
    for (int axis : dims[d].axes) result[axis] = Shard(d);
  for (const PartialAxis& p : partial) result[p.axis] = Partial(p.reduce);
  return result;
}

DistAttr from_placements(MeshPtr mesh, int rank, const std::vector<Placement>& placements) {
  ensure(static_cast<int>(placements.size()) <= mesh->axis_count(),
         "at most one placement an axis");
  DistAttr attr = DistAttr::replicated(mesh, rank);
  for (int axis = 0; axis < std::ssize(placements); ++axis) {
    const Placement& placement = placements[axis];
    if (placement.kind == Placement::Kind::kPartial)
      attr.partial.push_back({axis, placement.reduce});
    if (placement.kind != Placement::Kind::kShard) continue;
    if (placement.dim < 0 || placement.dim >= rank)
      throw UserError("Shard(" + std::to_string(placement.dim) + ") on axis '" +
                          mesh->axes()[axis] + "' names a dim that is not there",
                      rank == 0 ? "the tensor is a scalar"
                                : "the tensor has dims 0 to " + std::to_string(rank - 1),
                      "use one of its dims", ExitCode::kBadConfig);
    attr.dims[placement.dim].axes.push_back(axis);
  }
  return attr;
}

DistAttr from_spec(MeshPtr mesh, int rank, const std::vector<std::string>& spec) {
  if (static_cast<int>(spec.size()) > rank)
    throw UserError(
        "a spec of " + std::to_string(spec.size()) + " entries names a dim that is not there",
        "the tensor has " + std::to_string(rank) + (rank == 1 ? " dim" : " dims"),
        "give at most one entry a dim", ExitCode::kBadConfig);
  DistAttr attr = DistAttr::replicated(mesh, rank);
  for (size_t d = 0; d < spec.size(); ++d) {
    size_t begin = 0;
    while (begin <= spec[d].size()) {
      const size_t end = std::min(spec[d].find(',', begin), spec[d].size());
      const std::string axis = spec[d].substr(begin, end - begin);
      begin = end + 1;
      if (axis.empty() || axis == "None" || axis == "*") continue;
      const int index = mesh->axis(axis);
      if (attr.uses(index))
        throw UserError("the mesh axis '" + axis + "' is used twice for one tensor",
                        "an axis divides one dim of a tensor", "remove one of the two uses",
                        ExitCode::kBadConfig);
      attr.dims[d].axes.push_back(index);
    }
  }
  return attr;
}

namespace {

/// Chooses mesh axes, in order and from `first` on, whose sizes multiply to `count`.
bool choose_axes(const Mesh& mesh, const DistAttr& attr, int first, int64_t count,
                 std::vector<int>& chosen) {
  if (count == 1) return true;
  for (int axis = first; axis < mesh.axis_count(); ++axis) {
    const int64_t size = mesh.shape()[axis];
    if (size == 1 || attr.uses(axis) || count % size != 0) continue;
    if (mesh.axes()[axis] == kMicroBatchAxis) continue;
    chosen.push_back(axis);
    if (choose_axes(mesh, attr, axis + 1, count / size, chosen)) return true;
    chosen.pop_back();
  }
  return false;
}

}  // namespace

DistAttr from_parts(MeshPtr mesh, const std::vector<int64_t>& parts) {
  DistAttr attr = DistAttr::replicated(mesh, static_cast<int>(parts.size()));
  for (size_t d = 0; d < parts.size(); ++d) {
    std::vector<int> chosen;
    if (parts[d] < 1 || !choose_axes(*mesh, attr, 0, parts[d], chosen))
      throw UserError("no dim can be cut into " + std::to_string(parts[d]) +
                          " parts here on the mesh " + given_text(*mesh),
                      "the parts of a dim are a product of axes that no other dim uses",
                      "use such a product, or 1 to leave the dim whole", ExitCode::kBadConfig);
    attr.dims[d].axes = chosen;
  }
  return attr;
}

DistAttr without_partial(DistAttr attr) {
  attr.partial.clear();
  return attr;
}

}  // namespace tessera
