// This machine as the operating system describes it, by hwloc.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster/description.h"

namespace tessera {

/// The cores and the memory that this process may use.
struct Hardware {
  int packages = 1, cores = 1, threads = 1;
  std::vector<int> cores_of_node = {};  // by NUMA node that has cores
  /// How much slower than its own memory a core reaches that of another NUMA node, as the firmware
  /// says; 1 when it does not.
  double distance = 1;
  Bytes memory{0};  // 0: not known
};

/// Of this machine. The memory is that of the operating system or of the control group of this
/// process, whichever is less; hwloc is not asked for it, since it may know a part only.
///
///   synthetic  a machine in the text form of hwloc, "pack:2 numa:1 core:4 pu:2", instead of this
///              one; "" for this one. Its memory is what the text says.
///   throws     UserError (78) for a text that is no machine
Hardware detect_hardware(const std::string& synthetic = "");

/// One device for each core, with the rates of the preset "cpu". NUMA nodes of one number of cores
/// are a level of links of their own.
ClusterDescription machine_of(const Hardware& hardware, const std::string& name);

/// This machine.
ClusterDescription detect_machine();

/// Its name in the network, without the characters of lists of names; "n0" when it has none.
std::string name_of_this_machine();

}  // namespace tessera
