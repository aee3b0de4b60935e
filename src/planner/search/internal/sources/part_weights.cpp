#include "planner/search/internal/sources/part_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cluster/cost/device_cost.h"
#include "planner/placement/search_policy.h"
#include "simulator/step/deployment.h"

namespace tessera {
namespace {

/// Operations per second of a matmul so large that only its arithmetic counts.
double speed_of(const DeviceType& type) {
  constexpr double kLarge = 1e15;
  const LocalWork work{.operation = OperationClass::kMatmul, .flops = Flops(kLarge)};
  return kLarge / compute_price(work, type.cost).estimate.value();
}

/// The speed of each part of an axis.
std::vector<double> speeds_on(const Mesh& mesh, int axis, const Deployment& deployment) {
  std::vector<double> speeds(mesh.shape()[axis], std::numeric_limits<double>::infinity());
  for (int i = 0; i < mesh.size(); ++i) {
    double& speed = speeds[mesh.coordinate_at(i)[axis]];
    speed = std::min(speed, speed_of(deployment.type(mesh.ranks()[i])));
  }
  return speeds;
}

}  // namespace

std::vector<int64_t> weights_of(const std::vector<double>& speeds) {
  const double smallest = *std::ranges::min_element(speeds);
  std::vector<int64_t> best;
  double best_error = std::numeric_limits<double>::infinity();
  for (int scale = 1;
       scale <= kSearchPolicy.least_weight && best_error > kSearchPolicy.weight_tolerance;
       ++scale) {
    std::vector<int64_t> weights;
    double error = 0;
    for (double speed : speeds) {
      const double share = scale * speed / smallest;
      weights.push_back(std::llround(share));
      error = std::max(error, std::abs(static_cast<double>(weights.back()) / share - 1));
    }
    if (error >= best_error) continue;
    best_error = error;
    best = std::move(weights);
  }
  return best;
}

std::vector<MeshPtr> with_weights(const std::vector<MeshPtr>& meshes, const Cluster& cluster) {
  std::vector<MeshPtr> list;
  for (const MeshPtr& mesh : meshes) {
    list.push_back(mesh);
    if (mesh->is_weighted()) continue;
    const Deployment deployment = identity_mapping(cluster, mesh->size());
    AxisWeights weights;
    for (int axis = 0; axis < mesh->axis_count(); ++axis)
      weights.push_back(weights_of(speeds_on(*mesh, axis, deployment)));
    auto weighted =
        std::make_shared<const Mesh>(mesh->shape(), mesh->axes(), mesh->ranks(), weights);
    if (weighted->is_weighted()) list.push_back(std::move(weighted));
  }
  return list;
}

}  // namespace tessera
