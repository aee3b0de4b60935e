// The parts of a cluster in one line, which options of imported files have, too.
#pragma once

#include <string_view>

#include "cluster/cluster/internal/presets.h"

namespace tessera {

/// Identical machines: "4x8xh100-sxm".
struct MachinesOfLine {
  const DevicePreset* preset = nullptr;
  int machines = 1, devices = 1;
};

///   line    for messages
///   throws  UserError (78) for an unknown device and for invalid counts
MachinesOfLine machines_of_line(std::string_view item, std::string_view line);

/// A count from 1 to 1,048,576.
///   throws  UserError (78)
int count_of_line(std::string_view text, std::string_view line);

/// The network: "ib=400Gb", a port of that bandwidth for each of the `devices` of a machine, or
/// "ib=2x200Gb". The unit may leave "/s" out.
///   throws  UserError (78)
LinkLevel network_of_line(std::string_view item, int devices, std::string_view line);

}  // namespace tessera
