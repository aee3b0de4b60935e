// Weights of the parts of mesh axes, in proportion to the speeds of devices.
#pragma once

#include <vector>

#include "cluster/cluster/cluster.h"
#include "sharding/layout/mesh.h"

namespace tessera {

/// Small whole numbers in the proportions of `speeds`.
///
///   requires  speeds above 0
///   ensures   each weight differs from its share by at most 5% where weights of at most 16 for the
///             slowest do; equal speeds have equal weights
///   example   {2e12, 1e12} -> {2, 1};  {3, 2} -> {3, 2}
std::vector<int64_t> weights_of(const std::vector<double>& speeds);

/// The meshes, each followed by the same mesh with weights where those of an axis differ: the speed
/// of a part is that of its slowest device, as its prices have it (with the time factors of a
/// calibration), and rank i is on device i. A mesh with weights is left alone.
std::vector<MeshPtr> with_weights(const std::vector<MeshPtr>& meshes, const Cluster& cluster);

}  // namespace tessera
