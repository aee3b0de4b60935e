// The text forms of a cluster: a TOML or JSON file, and one line. docs/cluster.md describes them.
//
//     name = "two racks"
//     [device.a100]
//     preset = "a100-80g"            what is not given is as in the preset
//     memory = "80 GB"
//     [[machine]]
//     names = "n[0-3]"
//     device = "a100"
//     devices = 8
//     links = [{name = "nvlink", bandwidth = "300 GB/s", latency = "2 us"}]
//     [[network]]
//     name = "ib"
//     size = 2                       machines of a switch
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
#include <string>
#include <string_view>

#include "base/document.h"
#include "cluster/cluster.h"

namespace tessera {

/// Reads a cluster file; one whose name ends with .json is JSON, any other one is TOML.
///
///   throws  UserError: 66 for a missing file; 78 for a malformed file, an unknown key (with the
///           most similar legal one), a value without its unit, and what Cluster refuses
Cluster read_cluster(const std::filesystem::path& file);
Cluster parse_cluster(const Document& document, const std::string& origin);

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

/// Whether the text is meant as one line: it names a known device behind counts.
bool is_cluster_line(std::string_view line);

/// A file, or one line when there is no file of this name.
///   throws  UserError as both
Cluster cluster_of(const std::string& file_or_line);

/// The names of a list: "n[0-2,7],m" gives n0, n1, n2, n7 and m; "n[00-11]" keeps the zeros.
///   throws  UserError (78) for brackets that are not a list of numbers and ranges, and for more
///           than 1,048,576 names
std::vector<std::string> expand_names(std::string_view list);

/// The description as a document; parse_cluster gives it again.
Document to_document(const ClusterDescription& description);

}  // namespace tessera
