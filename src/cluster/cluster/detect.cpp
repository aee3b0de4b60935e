#include "cluster/cluster/detect.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "base/error.h"
#include "base/text/count_text.h"
#include "cluster/cluster/internal/presets.h"

namespace tessera {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;
using CpuSet = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

/// nullptr when hwloc cannot describe the machine.
Topology load(const std::string& synthetic) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {nullptr, &hwloc_topology_destroy};
  Topology topology(made, &hwloc_topology_destroy);
  if (!synthetic.empty() && hwloc_topology_set_synthetic(made, synthetic.c_str()) != 0)
    throw UserError("'" + synthetic + "' is no machine", "hwloc does not read it",
                    "write it as \"pack:2 numa:1 core:4 pu:2\"", ExitCode::kBadConfig);
  if (hwloc_topology_load(made) != 0) return {nullptr, &hwloc_topology_destroy};
  return topology;
}

/// Only the cores on which this process may run.
void restrict_to_process(hwloc_topology_t topology) {
  if (!hwloc_topology_is_thissystem(topology)) return;
  const CpuSet set(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  if (set && hwloc_get_cpubind(topology, set.get(), HWLOC_CPUBIND_PROCESS) == 0)
    hwloc_topology_restrict(topology, set.get(), 0);  // when it fails, all cores stay
}

int count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(hwloc_get_nbobjs_by_type(topology, type), 0);
}

/// The mean of the latencies between NUMA nodes, as a multiple of those inside.
double distance_of(hwloc_topology_t topology) {
  unsigned count = 1;
  hwloc_distances_s* found = nullptr;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &found,
                                  HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
      count == 0)
    return 1;
  double inside = 0, between = 0;
  const unsigned nodes = found->nbobjs;
  for (unsigned a = 0; a < nodes; ++a)
    for (unsigned b = 0; b < nodes; ++b)
      (a == b ? inside : between) += static_cast<double>(found->values[a * nodes + b]);
  hwloc_distances_release(topology, found);
  if (nodes < 2 || inside <= 0) return 1;
  return std::clamp(between / (inside * (nodes - 1)), 1.0, 100.0);
}

void add_nodes(hwloc_topology_t topology, Hardware& hardware) {
  for (int i = 0; i < count_of(topology, HWLOC_OBJ_NUMANODE); ++i) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, i);
    hardware.memory = hardware.memory + Bytes(node->attr->numanode.local_memory);
    const int cores =
        hwloc_get_nbobjs_inside_cpuset_by_type(topology, node->cpuset, HWLOC_OBJ_CORE);
    if (cores > 0) hardware.cores_of_node.push_back(cores);
  }
}

/// Whole cores of which a container may have the time: "200000 100000" is two of them.
int quota_of_cores(int cores) {
  std::ifstream quota("/sys/fs/cgroup/cpu.max");
  double largest = 0, period = 0;
  if (quota >> largest >> period && period > 0)
    return std::clamp(static_cast<int>(largest / period), 1, cores);
  return cores;
}

/// The memory of the machine, or what a container may use of it.
Bytes available_memory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  int64_t bytes = std::max<int64_t>(pages, 1) * std::max<int64_t>(page, 1);
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  if (int64_t largest = 0; limit >> largest && largest > 0) bytes = std::min(bytes, largest);
  return Bytes(bytes);
}

}  // namespace

Hardware detect_hardware(const std::string& synthetic) {
  Hardware hardware;
  if (const Topology topology = load(synthetic)) {
    restrict_to_process(topology.get());
    hardware.packages = std::max(count_of(topology.get(), HWLOC_OBJ_PACKAGE), 1);
    hardware.threads = std::max(count_of(topology.get(), HWLOC_OBJ_PU), 1);
    // A machine that does not name its cores has one for each thread.
    const int cores = count_of(topology.get(), HWLOC_OBJ_CORE);
    hardware.cores = cores > 0 ? cores : hardware.threads;
    hardware.distance = distance_of(topology.get());
    add_nodes(topology.get(), hardware);
  } else {
    cpu_set_t set;
    CPU_ZERO(&set);
    const int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    hardware.cores = hardware.threads = std::max(count, 1);
  }
  if (!synthetic.empty()) return hardware;
  hardware.memory = available_memory();
  if (const int quota = quota_of_cores(hardware.cores); quota < hardware.cores) {
    hardware.cores = quota;
    hardware.cores_of_node.clear();  // the quota does not say which cores
  }
  return hardware;
}

namespace {

/// What the operating system says and what the preset of a common machine has.
std::map<std::string, std::string> sources_of(const DeviceType& core) {
  const std::string device = "device." + core.name, preset = "preset 'cpu': a common machine";
  return {{device, "operating system"},
          {device + ".reserve", preset},
          {device + ".rates", preset},
          {"machine[0]", "operating system"},
          {"machine[0].links", preset}};
}

}  // namespace

ClusterDescription machine_of(const Hardware& hardware, const std::string& name) {
  const DevicePreset& preset = *find_preset("cpu");
  DeviceType core = device_of(preset);
  core.name = "core";
  if (hardware.memory.value() > 0) core.memory = Bytes(hardware.memory.value() / hardware.cores);
  core.source =
      fmt::format("{}, {}, {}, {}: the operating system; rates of a common machine",
                  counted(hardware.packages, "package"),
                  counted(std::max<int64_t>(std::ssize(hardware.cores_of_node), 1), "NUMA node"),
                  counted(hardware.cores, "core"), counted(hardware.threads, "thread"));
  MachineGroup machine = machine_of(preset, hardware.cores);
  machine.names = {name};
  machine.device = core.name;
  ClusterDescription description{"this machine", {core}, {machine}, {}, {}};
  description.sources = sources_of(core);
  const auto& nodes = hardware.cores_of_node;
  const bool are_alike = std::ranges::all_of(
      nodes, [&](int cores) { return cores * std::ssize(nodes) == hardware.cores; });
  if (nodes.size() < 2) return description;
  if (!are_alike) {
    description.assumed.push_back(
        "this machine: the links between NUMA nodes are as inside, since their numbers of cores "
        "differ");
    return description;
  }
  std::vector<InnerLevel>& levels = description.machines.front().levels;
  InnerLevel between = levels.front();
  levels.front().size = nodes.front();
  between.level.name = "numa";
  between.level.link.bytes_per_second *= nodes.front() / hardware.distance;
  between.level.link.latency = Seconds(between.level.link.latency.value() * hardware.distance);
  levels.push_back(between);
  description.assumed.push_back(fmt::format(
      "this machine: all cores of a NUMA node together reach another node at 1/{:.3g} of the rate "
      "inside",
      hardware.distance));
  return description;
}

std::string name_of_this_machine() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "n0";
  std::string text(name);
  std::ranges::replace_if(
      text, [](char c) { return c == '/' || c == '[' || c == ']' || c == ','; }, '_');
  return text;
}

ClusterDescription detect_machine() {
  return machine_of(detect_hardware(), name_of_this_machine());
}

}  // namespace tessera
