// The switches of a cluster as topology.conf of Slurm has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Switches in levels, the one next to the machines first; the last level has one switch. A switch
/// that is nearer to the machines than the height of its level stands alone in the levels between.
struct SwitchTree {
  std::vector<std::string> machines;
  /// By level, by child (a machine, or a switch of the level below): the index of its switch.
  std::vector<std::vector<int>> switch_of_child;

  bool operator==(const SwitchTree&) const = default;
};

/// Reads topology.conf: lines of `SwitchName=NAME` with `Nodes=LIST` or `Switches=LIST`, or of
/// `BlockName=NAME` with `Nodes=LIST`; other keys, such as LinkSpeed, have no meaning to Slurm.
///
///   throws  UserError (78) with the number of the line: no key and value, a switch without
///           children, a switch or machine that is named twice or below two switches, an unknown
///           switch, a cycle, several switches that nothing joins, more than 16 levels
SwitchTree parse_slurm_topology(std::string_view text, const std::string& file);

}  // namespace tessera
