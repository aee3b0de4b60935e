// The devices of the ranks of a mesh as the search for placements counts them.
#pragma once

#include <vector>

#include "planner/search/internal/candidates/candidate.h"

namespace tessera {

/// Of each rank of the mesh, rank i on device i; empty when all have the same.
std::vector<DeviceCost> devices_of(const PlanRequest& request, const Mesh& mesh);

/// What the smallest device has for values.
Bytes memory_of(const PlanRequest& request, const Mesh& mesh);

}  // namespace tessera
