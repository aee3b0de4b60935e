#include "sharding/propagation/axis_levels.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

/// A mesh on levels, and the axes there of each axis of the mesh before.
struct LevelledMesh {
  MeshPtr before, mesh;
  std::vector<std::vector<int>> axes;
};

/// The levels of an axis; nullptr where it stays one axis.
const std::vector<AxisLevel>* levels_of(const Mesh& mesh, int axis, const LinkCosts& links) {
  const auto found = links.levels.find(mesh.axes()[axis]);
  if (found == links.levels.end() || !mesh.weights()[axis].empty()) return nullptr;
  const int64_t ranks =
      std::accumulate(found->second.begin(), found->second.end(), int64_t{1},
                      [](int64_t product, const AxisLevel& level) { return product * level.size; });
  return ranks == mesh.shape()[axis] ? &found->second : nullptr;
}

LevelledMesh levelled(const MeshPtr& mesh, const LinkCosts& links) {
  LevelledMesh result{mesh, mesh, {}};
  Shape shape;
  std::vector<std::string> names;
  AxisWeights weights;
  for (int axis = 0; axis < mesh->axis_count(); ++axis) {
    std::vector<int>& axes = result.axes.emplace_back();
    const std::vector<AxisLevel>* levels = levels_of(*mesh, axis, links);
    const auto add = [&](const std::string& name, int64_t size) {
      axes.push_back(static_cast<int>(names.size()));
      names.push_back(name);
      weights.push_back(levels ? std::vector<int64_t>{} : mesh->weights()[axis]);
      if (std::ssize(names) <= kMaxRank) shape.push_back(size);
    };
    if (!levels)
      add(mesh->axes()[axis], mesh->shape()[axis]);
    else
      for (const AxisLevel& level : *levels) add(level.name, level.size);
  }
  const int64_t count = std::ssize(names) - (names.front() == kMicroBatchAxis ? 1 : 0);
  if (std::ssize(names) == mesh->axis_count() || count > kMaxMeshAxes) {
    for (int axis = 0; axis < mesh->axis_count(); ++axis) result.axes[axis] = {axis};
    return result;
  }
  result.mesh = std::make_shared<const Mesh>(std::move(shape), std::move(names), mesh->ranks(),
                                             std::move(weights));
  return result;
}

class OnLevels {
 public:
  OnLevels(const Meshes& meshes, const LinkCosts& links) {
    for (const NamedMesh& named : meshes) meshes_.push_back(levelled(named.mesh, links));
  }

  bool is_same() const {
    return std::ranges::all_of(meshes_,
                               [](const LevelledMesh& mesh) { return mesh.mesh == mesh.before; });
  }
  const LevelledMesh& of(const MeshPtr& mesh) const {
    for (const LevelledMesh& known : meshes_)
      if (known.before == mesh) return known;
    for (const LevelledMesh& known : meshes_)
      if (*known.before == *mesh) return known;
    throw InternalError("a placement is on no mesh of the program");
  }
  static std::vector<int> axes_of(const LevelledMesh& mesh, const std::vector<int>& axes) {
    std::vector<int> list;
    for (const int axis : axes)
      list.insert(list.end(), mesh.axes[axis].begin(), mesh.axes[axis].end());
    return list;
  }

  void move(DistAttr& attr) const {
    const LevelledMesh& mesh = of(attr.mesh);
    if (mesh.mesh == mesh.before) return;
    attr.mesh = mesh.mesh;
    for (DimSharding& dim : attr.dims) dim.axes = axes_of(mesh, dim.axes);
    SharedVector<PartialAxis> partial;
    for (const PartialAxis& part : attr.partial)
      for (const int axis : mesh.axes[part.axis]) partial.push_back({axis, part.reduce});
    attr.partial = std::move(partial);
  }
  void move(OpSharding& sharding) const {
    const LevelledMesh& mesh = of(sharding.mesh);
    if (mesh.mesh == mesh.before) return;
    sharding.mesh = mesh.mesh;
    for (std::vector<int>& axes : sharding.factor_axes) axes = axes_of(mesh, axes);
    std::vector<LinearAxis> linear;
    for (const LinearAxis& part : sharding.linear)
      for (const int axis : mesh.axes[part.axis]) linear.push_back({axis, part.set});
    sharding.linear = std::move(linear);
  }

 private:
  std::vector<LevelledMesh> meshes_;
};

}  // namespace

Meshes on_levels(const Meshes& meshes, const LinkCosts& links) {
  const OnLevels levels(meshes, links);
  Meshes result = meshes;
  for (NamedMesh& named : result) named.mesh = levels.of(named.mesh).mesh;
  return result;
}

ShardedGraph on_levels(ShardedGraph sharded, const LinkCosts& links) {
  const OnLevels levels(sharded.meshes, links);
  if (levels.is_same()) return sharded;
  for (DistAttr& attr : sharded.values) levels.move(attr);
  for (OpSharding& op : sharded.ops) levels.move(op);
  for (NamedMesh& named : sharded.meshes) named.mesh = levels.of(named.mesh).mesh;
  return sharded;
}

}  // namespace tessera
