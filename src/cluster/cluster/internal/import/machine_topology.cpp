#include "cluster/cluster/internal/import/machine_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/text/count_text.h"
#include "cluster/cluster/internal/presets.h"
#include "cluster/cost/quantity.h"

namespace tessera {
namespace {

/// What data sheets say of the links of a device. The first one of an architecture and of a number
/// of NVLinks stands for all of them.
struct DeviceLinks {
  std::string_view preset;
  int sm = 0, nvlinks = 0;
  double nvlink_gb_per_second = 0;  // of one, in one direction
  double pcie_gb_per_second = 0;    // as copies reach it
};
constexpr std::array kDeviceLinks{
    DeviceLinks{"p100", 60, 4, 20, 12},       DeviceLinks{"v100-32g", 70, 6, 25, 12},
    DeviceLinks{"v100-16g", 70, 6, 25, 12},   DeviceLinks{"a100-80g", 80, 12, 25, 24},
    DeviceLinks{"a100-40g", 80, 12, 25, 24},  DeviceLinks{"h100-sxm", 90, 18, 25, 48},
    DeviceLinks{"h100-96g", 90, 18, 25, 48},  DeviceLinks{"h200", 90, 18, 25, 48},
    DeviceLinks{"gh200", 90, 18, 25, 48},     DeviceLinks{"h800", 90, 8, 25, 48},
    DeviceLinks{"b200", 100, 18, 50, 48},     DeviceLinks{"gb200", 100, 18, 50, 48},
    DeviceLinks{"rtx3090", 86, 4, 14.06, 24}, DeviceLinks{"rtx2080", 75, 1, 25, 12},
    DeviceLinks{"titan-rtx", 75, 2, 25, 12},
};
constexpr DeviceLinks kUnknownLinks{"", 0, 0, 25, 12};

constexpr Seconds kNvLinkLatency(2e-6), kPcieLatency(10e-6);

const DeviceLinks* links_of(std::string_view preset) {
  const auto found = std::ranges::find(kDeviceLinks, preset, &DeviceLinks::preset);
  return found == kDeviceLinks.end() ? nullptr : &*found;
}

/// The most NVLinks of one device to others.
int max_links(const MachineTopology& topology) {
  int largest = 0;
  for (int a = 0; a < topology.devices; ++a) {
    int links = 0;
    for (int b = 0; b < topology.devices; ++b) links += topology.links(a, b);
    largest = std::max(largest, links);
  }
  return largest;
}

int links_of_first_pair(const MachineTopology& topology) {
  return topology.devices > 1 ? topology.links(0, 1) : 0;
}

bool all_pairs_are_alike(const MachineTopology& topology) {
  for (int a = 0; a < topology.devices; ++a)
    for (int b = 0; b < a; ++b)
      if (topology.links(a, b) != links_of_first_pair(topology)) return false;
  return true;
}

/// NVLinks of a device to a switch. A matrix has them between each two devices: then they are more
/// than the device has.
int links_to_switch(const MachineTopology& topology, int links_of_device) {
  if (topology.switch_links > 0) return topology.switch_links;
  const int links = links_of_first_pair(topology);
  const bool is_switch = all_pairs_are_alike(topology) && max_links(topology) > links_of_device;
  return is_switch ? links : 0;
}

/// The size of groups of neighbours whose paths are at most `farthest`; nullopt when the devices
/// are not such groups of one size, of neighbours in the order of the devices.
std::optional<int> group_size(const MachineTopology& topology, PciPath farthest) {
  int size = 1;
  while (size < topology.devices && topology.path(0, size) <= farthest) ++size;
  if (topology.devices % size != 0) return std::nullopt;
  for (int a = 0; a < topology.devices; ++a)
    for (int b = 0; b < a; ++b)
      if ((topology.path(a, b) <= farthest) != (a / size == b / size)) return std::nullopt;
  return size;
}

InnerLevel pcie_level(const std::string& name, int size, double rate) {
  return {{name, {kPcieLatency, rate}}, size};
}

/// The name of the level above groups of neighbours, by the farthest path.
std::string outer_name(const MachineTopology& topology) {
  PciPath farthest = PciPath::kBridge;
  for (int a = 0; a < topology.devices; ++a)
    for (int b = 0; b < a; ++b) farthest = std::max(farthest, topology.path(a, b));
  return farthest == PciPath::kSystem ? "socket" : "host";
}

/// The levels of PCIe: below one bridge, in one NUMA node, in the machine.
std::vector<InnerLevel> pcie_levels(const MachineTopology& topology, double rate) {
  std::vector<InnerLevel> levels;
  int below = 1;
  for (const auto& [name, farthest] :
       {std::pair{"pcie", PciPath::kBridges}, std::pair{"host", PciPath::kNode}}) {
    const std::optional<int> size = group_size(topology, farthest);
    if (!size || *size == below || *size == topology.devices) continue;
    levels.push_back(pcie_level(name, *size / below, rate));  // groups of the level below
    below = *size;
  }
  levels.push_back(pcie_level(levels.empty() ? "pcie" : outer_name(topology), 0, rate));
  return levels;
}

void assume_pcie(const MachineTopology& topology, const std::vector<InnerLevel>& levels,
                 double rate, std::vector<std::string>& assumed) {
  if (topology.pcie_bytes_per_second <= 0)
    assumed.push_back(fmt::format("{}: PCIe of a device has {}", topology.source,
                                  quantity_text(rate, byte_rate_units())));
  if (levels.size() > 1)
    assumed.push_back(topology.source +
                      ": a group of devices reaches another one with the rate of one device");
}

}  // namespace

std::string likely_device(const MachineTopology& topology) {
  if (topology.sm > 0) {
    const auto found = std::ranges::find(kDeviceLinks, topology.sm, &DeviceLinks::sm);
    return found == kDeviceLinks.end() ? "" : std::string(found->preset);
  }
  // Between each two devices there are at most as many links as a device has.
  const bool is_switch = all_pairs_are_alike(topology) && max_links(topology) > 18;
  const int links = is_switch ? links_of_first_pair(topology) : max_links(topology);
  const auto found = std::ranges::find(kDeviceLinks, links, &DeviceLinks::nvlinks);
  return found == kDeviceLinks.end() ? "" : std::string(found->preset);
}

MachineGroup machine_of(const MachineTopology& topology, const std::string& device,
                        const DevicePreset* preset, std::vector<std::string>& assumed) {
  const DeviceLinks* known = preset ? links_of(preset->name) : nullptr;
  const DeviceLinks& links = known ? *known : kUnknownLinks;
  MachineGroup machine{{}, device, topology.devices, 0, {}, {}};
  const int to_switch = links_to_switch(topology, known ? known->nvlinks : 18);
  const int largest = to_switch > 0 ? to_switch : max_links(topology);
  if (known && largest > known->nvlinks)
    throw UserError(topology.source + ": a GPU has " + counted(largest, "NVLink"),
                    "a device of the type '" + device + "' has " + std::to_string(known->nvlinks),
                    "name the device of the machine", ExitCode::kBadConfig);
  if (largest > 0)
    assumed.push_back(fmt::format("{}: an NVLink has {:g} GB/s in one direction{}", topology.source,
                                  links.nvlink_gb_per_second,
                                  known ? ", as in data sheets of " + device : ""));
  const double nvlink = links.nvlink_gb_per_second * 1e9;
  if (to_switch > 0) {
    machine.levels.push_back(
        {{"nvlink", {kNvLinkLatency, nvlink}, LinkSharing::kSwitch, to_switch}, 0});
    return machine;
  }
  const double rate = topology.pcie_bytes_per_second > 0 ? topology.pcie_bytes_per_second
                                                         : links.pcie_gb_per_second * 1e9;
  for (int a = 0; a < topology.devices; ++a)
    for (int b = a + 1; b < topology.devices; ++b)
      if (const int count = topology.links(a, b); count > 0)
        machine.direct.push_back({a, b, {kNvLinkLatency, count * nvlink}});
  // The matrix has no PCIe path for two devices with NVLinks.
  machine.levels = machine.direct.empty() || topology.sm > 0
                       ? pcie_levels(topology, rate)
                       : std::vector{pcie_level("pcie", 0, rate)};
  assume_pcie(topology, machine.levels, rate, assumed);
  return machine;
}

LinkLevel network_of(const MachineTopology& topology) {
  LinkLevel level{"network", {Seconds(5e-6), 0}, LinkSharing::kSwitch, 0};
  for (const NetworkCard& card : topology.cards) {
    if (card.bytes_per_second <= 0) continue;
    const double slowest = level.link.bytes_per_second;
    level.link.bytes_per_second =
        level.ports == 0 ? card.bytes_per_second : std::min(slowest, card.bytes_per_second);
    ++level.ports;
  }
  return level;
}

}  // namespace tessera
