// The devices of one machine and what is between each two of them, as drivers and communication
// libraries detect it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster/internal/presets.h"

namespace tessera {

// What is read of a machine.
inline constexpr int kMaxMachineDevices = 1024;
inline constexpr int kMaxNvLinks = 1024;  // between two devices

/// What a message between two devices passes beside NVLinks, from the nearest to the farthest.
enum class PciPath : uint8_t {
  kBridge,   // one PCIe bridge: PIX
  kBridges,  // several PCIe bridges: PXB
  kHost,     // a host bridge: PHB
  kNode,     // several host bridges of a NUMA node: NODE
  kSystem,   // the link between NUMA nodes: SYS
};

/// A network card of the machine.
struct NetworkCard {
  std::string name;             // "mlx5_0"
  double bytes_per_second = 0;  // of all of its ports; 0: not known
};

struct MachineTopology {
  std::string source;  // the file, for messages
  int devices = 0;
  /// By device, row by row; both directions are equal. Of a device with itself: no meaning.
  std::vector<PciPath> paths = {};
  /// NVLinks between two devices, by device, row by row.
  std::vector<int> nvlinks = {};
  /// NVLinks of each device to a switch that joins all devices; 0 without such a switch.
  int switch_links = 0;
  int sm = 0;                        // the version of the architecture times 10; 0: not known
  double pcie_bytes_per_second = 0;  // of a device; 0: not known
  std::vector<NetworkCard> cards = {};

  PciPath path(int a, int b) const { return paths.at(a * devices + b); }
  int links(int a, int b) const { return nvlinks.at(a * devices + b); }
};

/// Reads the text of `nvidia-smi topo -m`: the rows and columns of GPUs; of other columns only the
/// names of the network cards.
///
///   throws  UserError (78) with the number of the line: no matrix, a row that is missing, twice
///           there or too short, an unknown cell, a matrix that is not symmetric
MachineTopology parse_nvidia_smi(std::string_view text, const std::string& file);

/// Whether a line can be the header of such a matrix: it begins with GPU0.
bool is_matrix_header(std::string_view line);

/// Reads the XML that NCCL writes to NCCL_TOPO_DUMP_FILE.
///
///   throws  UserError (78) with the number of the line: malformed XML, a document type, elements
///           deeper than 64, no GPUs, an attribute that is missing or no number, two GPUs of one
///           address, NVLinks that only one of two GPUs names
MachineTopology parse_nccl_topology(std::string_view text, const std::string& file);

/// The preset that the links or the architecture hint at; "" when they do not.
std::string likely_device(const MachineTopology& topology);

/// One machine without a name. The rates of NVLinks are those of the preset of the device, the rest
/// is assumed and added to `assumed`.
///   device   the name of a type
///   preset   the preset that the type is or begins at; nullptr for none
///   throws   UserError (78) when the device has fewer NVLinks than the topology
MachineGroup machine_of(const MachineTopology& topology, const std::string& device,
                        const DevicePreset* preset, std::vector<std::string>& assumed);

/// The network ports of a machine: its cards, if their speed is known.
///   ensures  no ports when none is known
LinkLevel network_of(const MachineTopology& topology);

}  // namespace tessera
