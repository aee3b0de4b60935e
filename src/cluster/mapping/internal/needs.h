// Whether a cluster has the devices that ranks need.
#pragma once

#include "cluster/cluster/cluster.h"
#include "cluster/mapping/internal/mapping_input.h"

namespace tessera {

/// Ranks of equal needs.
struct NeedClass {
  DeviceNeed need;
  std::vector<Rank> ranks;
  std::vector<bool> fits;  // by type of the cluster
};

/// The classes of the needs, in an order that does not depend on numbers of ranks.
///
///   throws  UserError (3): more ranks than devices; no device of the kind, the type, the memory or
///           the compute that a rank needs; too few devices for some ranks
std::vector<NeedClass> checked_needs(const MappingInput& input, const Cluster& cluster);

/// How many devices of each type the ranks of each class get, so that all have one: by class and
/// type. `devices` by type.
///
///   ensures  empty when there is no such choice
std::vector<std::vector<int>> share_types(const std::vector<NeedClass>& needs,
                                          const std::vector<int>& devices);

}  // namespace tessera
