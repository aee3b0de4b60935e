#include "planner/search/internal/sources/searched_devices.h"

#include <algorithm>
#include <functional>

#include "simulator/step/deployment.h"

namespace tessera {

std::vector<DeviceCost> devices_of(const PlanRequest& request, const Mesh& mesh) {
  const Deployment deployment = identity_mapping(request.cluster, mesh.size());
  std::vector<DeviceCost> devices;
  for (Rank rank : mesh.ranks()) devices.push_back(deployment.type(rank).cost);
  const bool are_equal =
      std::ranges::adjacent_find(devices, std::not_equal_to<>()) == devices.end();
  return are_equal ? std::vector<DeviceCost>() : devices;
}

Bytes memory_of(const PlanRequest& request, const Mesh& mesh) {
  const Deployment deployment = identity_mapping(request.cluster, mesh.size());
  Bytes smallest = deployment.type(0).memory - deployment.type(0).reserve;
  for (Rank rank : mesh.ranks())
    smallest = std::min(smallest, deployment.type(rank).memory - deployment.type(rank).reserve);
  return smallest;
}

}  // namespace tessera
