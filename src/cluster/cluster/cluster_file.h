// The text forms of a cluster: a TOML or JSON file, and one line. docs/cluster.md describes them.
//
//     name = "two racks"
//     [device.a100]
//     preset = "a100-80g"            what is not given is as in the preset
//     memory = "80 GB"
//     rates = {launch = "6 us"}      as [device] of a cost file
//     [[machine]]
//     names = "n[0-3]"
//     device = "a100"
//     devices = 8                    or: import = "topo.txt", of nvidia-smi or NCCL
//     links = [{name = "nvlink", bandwidth = "300 GB/s", latency = "2 us"}]
//     [[network]]
//     name = "ib"
//     size = 2                       machines of a switch; or: import = "topology.conf", of Slurm
//     bandwidth = "25 GB/s"
//     ports = 8
//     [[network]]
//     name = "spine"
//     oversubscription = 2
//     [[link]]
//     between = ["n0/3", "n1/3"]
//     bandwidth = "50 GB/s"
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/files/config_table.h"
#include "base/files/document.h"
#include "cluster/cluster/cluster.h"

namespace tessera {

/// Reads a cluster file: JSON, TOML, or one of the formats of cluster/cluster/import/import.h. The
/// content says which, not the name.
///
///   throws  UserError: 66 for a missing file; 78 for a malformed file, an unknown key (with the
///           most similar legal one), a value without its unit, and what Cluster refuses
Cluster read_cluster(const std::filesystem::path& file);
Cluster parse_cluster(const Document& document, const std::string& origin);

/// How a cluster file is read.
struct ClusterReading {
  /// Receives every key that is asked for, but those of `rates`, which are those of `[device]` of a
  /// cost file.
  std::vector<ReadKey>* keys = nullptr;
  /// The text of an imported file, which is named beginning at the folder of the cluster file.
  std::function<std::string(const std::filesystem::path&)> imported = {};
};

/// Without the checks of Cluster.
///   throws  UserError as read_cluster, also for a missing file that it imports
ClusterDescription parse_cluster_description(const Document& document, const std::string& origin,
                                             const ClusterReading& reading = {});

/// Whether the text of a file is a cluster: one of the imported formats, or TOML or JSON with
/// devices or machines.
///   throws  UserError (78) for malformed TOML or JSON
bool is_cluster_text(std::string_view text, const std::string& file);

/// One line: machines, and the ports of each machine to the network.
///
///     "8xa100-80g"                one machine of eight devices
///     "4x8xh100-sxm;ib=400Gb"     four machines; 400 Gb/s for each device of a machine
///     "4x8xh100-sxm;ib=2x200Gb"   two ports for each machine
///     "2x4xv100+2x8xp100"         machines of two types
///     "cpu:8"                     eight cores, as "8xcpu"
///
///   throws  UserError (78)
Cluster parse_cluster_line(std::string_view line);

/// The line of N devices in machines of their usual size: "8x8xh100" of "64xh100", "4xh100" of
/// "4xh100".
///   throws  UserError (78) for another form, a device that is not known, and a number above that
///           of a machine that fills none
std::string line_of_devices(std::string_view count_and_device);

/// Whether the text is meant as one line: it names a known device after counts.
bool is_cluster_line(std::string_view line);

/// A file, a file with options as "topology.conf;machine=8xa100-80g;ib=400Gb" (see import.h), one
/// line, or "detect": this machine as the operating system describes it.
///   throws  UserError as these
Cluster cluster_of(const std::string& text);

/// Whether a text that is no file means a cluster for cluster_of.
bool names_cluster(const std::string& text);

/// The names of a list: "n[0-2,7],m" gives n0, n1, n2, n7 and m; "n[00-11]" keeps the zeros.
///   throws  UserError (78) for brackets that are not a list of numbers and ranges, and for more
///           than 65,536 names, or one of more than 255 characters
std::vector<std::string> expand_names(std::string_view list);

/// Writes a cluster file: JSON when its name ends with .json, else TOML.
///   throws  UserError as write_file
void write_cluster(const std::filesystem::path& file, const ClusterDescription& description);

/// The description as a document; parse_cluster gives it again.
Document to_document(const ClusterDescription& description);

}  // namespace tessera
