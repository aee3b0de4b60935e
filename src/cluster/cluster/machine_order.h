// One order of the machines of a cluster, however they are listed.
#pragma once

#include "cluster/cluster/description.h"

namespace tessera {

/// The cluster with its machines in an order that does not depend on how they are listed nor on
/// names: fast devices first, then large memories, then many devices; groups that are alike in
/// their devices and links stay as they are. Plans for it are mapped to the devices by name.
///
///   returns  the cluster as it is where switches join some machines and not others, or direct
///            links join certain devices: there the order says who is near
ClusterDescription in_canonical_order(ClusterDescription description);

}  // namespace tessera
