#include "cluster/mapping/testing/trees.h"

#include <functional>
#include <numeric>

namespace tessera::mapping_testing {

DeviceType device_type(const std::string& name, HardwareKind kind, int64_t gigabytes,
                       double flops_per_second) {
  DeviceType type;
  type.name = name;
  type.kind = kind;
  type.memory = Bytes(gigabytes * 1'000'000'000);
  type.cost.flops_per_second = flops_per_second;
  return type;
}

LinkLevel level(const std::string& name, double gigabytes_a_second, LinkSharing sharing,
                double microseconds) {
  return {name, {Seconds(microseconds * 1e-6), gigabytes_a_second * 1e9}, sharing, 1};
}

std::vector<std::string> names(const std::string& prefix, int count) {
  std::vector<std::string> list;
  for (int i = 0; i < count; ++i) list.push_back(prefix + std::to_string(i));
  return list;
}

NetworkLevel network(const LinkLevel& link, int children, int size) {
  NetworkLevel made{link, 0, {}};
  for (int i = 0; i < children; ++i) made.switch_of_child.push_back(i / size);
  return made;
}

ClusterDescription tree_of(const std::vector<int>& fans, double gigabytes_a_second, double ratio) {
  ClusterDescription made;
  made.types = {device_type("a", HardwareKind::kGpu, 80)};
  const int devices = std::accumulate(fans.begin(), fans.end(), 1, std::multiplies<>());
  int children = devices / fans[0];
  double rate = gigabytes_a_second;
  MachineGroup machines;
  machines.names = names("n", children);
  machines.device = "a";
  machines.devices = fans[0];
  machines.levels = {{level("l0", rate), 0}};
  made.machines = {machines};
  for (size_t i = 1; i < fans.size(); ++i) {
    rate /= ratio;
    made.network.push_back(network(level("l" + std::to_string(i), rate), children, fans[i]));
    children /= fans[i];
  }
  return made;
}

}  // namespace tessera::mapping_testing
