// Devices and machines by their names in data sheets.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster/description.h"

namespace tessera {

/// A device that has a name of its own, and the machine in which it is sold.
struct DevicePreset {
  std::string_view name;  // "a100-80g"
  HardwareKind kind = HardwareKind::kGpu;
  double memory_gb = 0;  // powers of 1000, as data sheets have it
  double memory_gb_per_second = 0;
  double bf16_tflops = 0;  // dense; f16 has the same. 0: computed as f32
  double f32_tflops = 0;
  double link_gb_per_second = 0;     // inside a machine, of a device in one direction
  std::string_view link = {};        // "nvlink"
  int devices = 8;                   // of a machine
  double network_gb_per_second = 0;  // of a port
  int ports = 1;                     // of a machine
  std::string_view source = {};
};

std::span<const DevicePreset> presets();
std::vector<std::string> preset_names();
/// nullptr for an unknown name. Capitals, former and common spellings count: "H100" is "h100-sxm".
const DevicePreset* find_preset(std::string_view name);
/// The known device whose name is the most similar, "" when none is. A device with other digits is
/// another product, so it is no suggestion: "h20" is not "h200".
std::string nearest_preset(std::string_view name);

/// The rates of a device that a data sheet states are reached in part: large products of matrices
/// by 80%, memory by 85%.
DeviceType device_of(const DevicePreset& preset);
/// One machine of `devices` such devices, with the links between them, and no name.
MachineGroup machine_of(const DevicePreset& preset, int devices);
/// The network ports of a machine; machines are joined by a switch.
LinkLevel network_of(const DevicePreset& preset);

}  // namespace tessera
