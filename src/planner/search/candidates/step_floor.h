// A time below which no plan takes a step, whatever it divides: no candidate is needed but the one
// on one device.
#pragma once

#include <algorithm>

#include "base/units.h"
#include "planner/search/internal/candidates/candidate.h"

namespace tessera {

/// The step is not shorter than either of them.
struct StepFloor {
  Seconds arithmetic{0};  // of all operations, divided over the devices
  Seconds memory{0};      // of all variables that a step changes, divided over the devices

  Seconds seconds() const { return std::max(arithmetic, memory); }
};

/// A lower bound of the step of every plan on at most `ranks` devices, however it divides the
/// model: the operations that one device executes, except for those on padding, all at the highest
/// rate that a device has for an element type of the model; and every trained variable read and
/// written once at the full rate of the memory. Nothing is exchanged, and no device waits. So the
/// gap to a plan is large, and most of it is no loss of the plan.
///
///   one_device  the serial plan of the request, evaluated
///   devices     the fastest of the cluster, at most `ranks`
StepFloor step_floor(const PlanRequest& request, int ranks, const EvaluatedCandidate& one_device);

}  // namespace tessera
