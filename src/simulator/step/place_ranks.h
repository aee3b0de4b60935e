// Ranks on the devices of a cluster, so that those which exchange much are close.
#pragma once

#include "cluster/mapping/mapping.h"
#include "simulator/step/rank_traffic.h"
#include "simulator/step/step_prediction.h"

namespace tessera {

/// The input of a mapping for a compiled plan. Each rank needs a device with its memory.
///
///   exposed   a prediction of any deployment of the same task graph: the traffic of an axis counts
///             by the part of its exchanges that no kernel hides, at least kMinWeight
///   ensures   where the meshes are one grid, with the stages as the axis "pp", traffic along an
///             axis that is the same in all of its lines is that of the grid; the rest stands
///             beside
MappingInput mapping_input(const TaskGraph& graph, const StepPrediction& exposed);

/// What a second of traffic counts that is hidden in the prediction: on another device it may not
/// be.
inline constexpr double kMinWeight = 0.05;

}  // namespace tessera
