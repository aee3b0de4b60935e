// This machine as a cluster, as far as it can be detected and measured.
#pragma once

#include <functional>

#include "cluster/cluster/cluster.h"

namespace tessera {

/// detect_machine with measured rates: kernels on one core, copies, and exchanges between threads.
/// It takes a few seconds; other jobs make it slower than it is.
///   progress  as of measure_kernels
ClusterDescription measure_machine(const std::function<void(double)>& progress = {});

}  // namespace tessera
