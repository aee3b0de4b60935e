// This machine as a cluster, as far as it can be detected and measured.
#pragma once

#include <functional>

#include "cluster/cluster.h"

namespace tessera {

/// What the operating system says: the cores that this process may use, the memory that it may
/// use, and the name. Rates are those of the preset "cpu".
ClusterDescription detect_machine();

/// The same with measured rates: kernels on one core, copies, and exchanges between threads. It
/// takes a few seconds; other jobs make it slower than it is.
///   progress  as of measure_kernels
ClusterDescription measure_machine(const std::function<void(double)>& progress = {});

}  // namespace tessera
