// Clusters that other systems describe: switches of Slurm, the matrix of `nvidia-smi topo -m`, the
// topology of NCCL, and the cluster file of Paddle. Only facts of the files are taken. What they do
// not say comes from options; what neither says is assumed, and the description lists it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster/description.h"
#include "cluster/cluster/internal/import/machine_topology.h"
#include "cluster/cluster/internal/import/switch_tree.h"
#include "cluster/cluster/internal/presets.h"

namespace tessera {

enum class ImportFormat : uint8_t { kSlurm, kNvidiaSmi, kNccl, kPaddle };
std::string_view to_text(ImportFormat format);  // "a topology.conf of Slurm", ...

/// The bytes of a file at most.
inline constexpr size_t kMaxImportBytes = 64 << 20;

/// The format by the content of a file, not by its name; nullopt for anything else.
std::optional<ImportFormat> import_format(std::string_view text);

/// What the options of a line add to a file: "topology.conf;machine=8xa100-80g;ib=400Gb".
///
///     device=NAME         the device, for matrices of nvidia-smi and for NCCL
///     machines=COUNT      identical machines, for matrices of nvidia-smi and for NCCL
///     machine=8xNAME      each machine, for Slurm
///     oversubscription=2  of all levels of switches above the lowest one, for Slurm
///     NAME=400Gb          the network and the bandwidth of a port, as in a line without a file
///
///   options  the texts after each ;
///   throws   UserError (78) with the line of the file, or with the key of a JSON file
ClusterDescription import_cluster(std::string_view text, const std::string& file,
                                  const std::vector<std::string>& options = {});

/// The preset of this name; without a name the likely one, which is added to `assumed`.
///   throws  UserError (78) for an unknown name, and when nothing hints at a device
const DevicePreset& device_preset(const MachineTopology& topology, const std::string& name,
                                  std::vector<std::string>& assumed);

/// The oversubscription of levels above the lowest one: as given, or 1 for 0.
double oversubscription_of(double given);
/// n levels above the lowest one; from there on it has an oversubscription for a bandwidth.
LinkLevel level_above(const LinkLevel& lowest, size_t levels);
/// Adds what is assumed of the levels of switches.
///   oversubscription  0 when it is not given
void assume_levels(const SwitchTree& tree, const std::string& file, double oversubscription,
                   std::vector<std::string>& assumed);

/// One machine of a matrix of nvidia-smi or of a topology of NCCL.
///   throws  UserError (78), also for a file of another kind
MachineTopology import_machine(std::string_view text, const std::string& file);
/// The switches of a file of Slurm.
///   throws  UserError (78), also for a file of another kind
SwitchTree import_switches(std::string_view text, const std::string& file);

}  // namespace tessera
