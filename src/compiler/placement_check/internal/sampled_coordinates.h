// The coordinates of a mesh at which the check of placements compares what depends on the rank.
#pragma once

#include <vector>

#include "base/tensor/split.h"
#include "sharding/layout/mesh.h"

namespace tessera {

/// Every coordinate of a small mesh; the corners of a larger one and a sample between them, whose
/// number does not grow with the mesh.
std::vector<Coordinate> sampled_coordinates(const Mesh& mesh);

}  // namespace tessera
