#include "planner/search/answers/axis_levels.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/text/text.h"
#include "compiler/plan/preset.h"
#include "simulator/step/deployment.h"

namespace tessera {
namespace {

/// The levels over which pairs of ranks exchange.
class Levels {
 public:
  explicit Levels(const Deployment& deployment) : deployment_(deployment) {}

  void add(Rank a, Rank b) {
    const DeviceId from = deployment_.device(a), to = deployment_.device(b);
    if (from == to) return;
    bandwidths_.emplace(deployment_.cluster->level(from, to),
                        deployment_.cluster->link(from, to).bytes_per_second);
  }

  std::vector<std::string> names() const {
    std::vector<std::pair<double, std::string>> list;
    for (const auto& [name, bandwidth] : bandwidths_) list.emplace_back(bandwidth, name);
    std::ranges::sort(list, std::greater<>());
    std::vector<std::string> names;
    for (auto& [bandwidth, name] : list) names.push_back(std::move(name));
    return names;
  }

 private:
  const Deployment& deployment_;
  std::map<std::string, double> bandwidths_;
};

void add_neighbours(const Mesh& mesh, int axis, Levels& levels) {
  for (const Rank rank : mesh.ranks()) {
    Coordinate next = *mesh.coordinate_of(rank);
    if (++next[axis] < mesh.shape()[axis]) levels.add(rank, mesh.rank_at(next));
  }
}

AxisLevels levels_of_axis(const Meshes& meshes, const std::string& name,
                          const Deployment& deployment) {
  Levels levels(deployment);
  for (const NamedMesh& named : meshes)
    if (const std::optional<int> axis = named.mesh->find_axis(name))
      add_neighbours(*named.mesh, *axis, levels);
  return {name, levels.names()};
}

AxisLevels levels_of_stages(const Meshes& meshes, const Deployment& deployment) {
  Levels levels(deployment);
  for (size_t stage = 1; stage < meshes.size(); ++stage) {
    const std::vector<Rank>&from = meshes[stage - 1].mesh->ranks(),
          &to = meshes[stage].mesh->ranks();
    for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) levels.add(from[i], to[i]);
  }
  return {std::string(kPipelineKey), levels.names()};
}

}  // namespace

std::vector<AxisLevels> axis_levels(const Plan& plan, const Cluster& cluster) {
  const Deployment deployment = identity_mapping(cluster, plan.hardware());
  const Meshes meshes = plan.placed();
  std::vector<AxisLevels> list;
  for (const NamedMesh& named : meshes)
    for (int axis = 0; axis < named.mesh->axis_count(); ++axis) {
      const std::string& name = named.mesh->axes()[axis];
      if (named.mesh->shape()[axis] > 1 && !std::ranges::count(list, name, &AxisLevels::axis))
        list.push_back(levels_of_axis(meshes, name, deployment));
    }
  if (meshes.size() > 1) list.push_back(levels_of_stages(meshes, deployment));
  return list;
}

std::string to_text(const std::vector<AxisLevels>& list) {
  std::vector<std::string> parts;
  for (const AxisLevels& each : list) parts.push_back(each.axis + " on " + join(each.levels, ", "));
  return join(parts, "; ");
}

}  // namespace tessera
