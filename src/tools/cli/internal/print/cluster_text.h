// A cluster for readers and for scripts.
#pragma once

#include <string>

#include "base/files/document.h"
#include "cluster/cluster/cluster.h"

namespace tessera {

/// Tables of the device types, the machines and the links, and a drawing of the levels:
///
///     network        25 GB/s a machine, 5 us
///     └─ n0 .. n3    8 x a100-80g each
///        └─ nvlink   300 GB/s a device, 2 us
std::string cluster_text(const Cluster& cluster);

/// The description (to_document of cluster/cluster/cluster_file.h), and what follows from it:
/// devices, machines and device groups.
Document cluster_document(const Cluster& cluster);

}  // namespace tessera
