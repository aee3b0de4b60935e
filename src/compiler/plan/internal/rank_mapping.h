// The mapping of a plan: which device of a cluster each rank gets.
#pragma once

#include <string>
#include <vector>

#include "base/files/config_table.h"
#include "base/files/document.h"

namespace tessera {

/// A decision for one cluster; on another one it says nothing. It does not move processes: the
/// launcher does, with a host file or a rank file that lists the machines in this order.
struct RankMapping {
  std::string cluster;               // the name of its description, or the line that describes it
  std::vector<std::string> devices;  // by rank: "n0/3", the machine and the device in it

  bool operator==(const RankMapping&) const = default;
};

///   throws  UserError (78) unless it has one device for each of `ranks`, each once
RankMapping read_mapping(ConfigTable table, int ranks);
Document to_document(const RankMapping& mapping);

}  // namespace tessera
