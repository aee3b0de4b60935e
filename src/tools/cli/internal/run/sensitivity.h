// What becomes of a plan when the devices or the batch change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/internal/run/plan_search.h"

namespace tessera {

/// A change, and what the planner answers to it.
struct Sensitivity {
  std::string change;  // "half the bandwidth"
  /// Of the plan as it is; nullopt when it is not possible after the change, or does not fit.
  std::optional<Seconds> kept = {};
  /// Of the best plan after the change, the kept one included; nullopt: none fits.
  std::optional<Seconds> best = {};
  std::string plan = {};             // name of the best one; "" for the kept one
  std::string placement = {};        // of the op or the value in it: choice_text; "" without one
  std::optional<Bytes> memory = {};  // that the fullest device needs for the best one
};

/// The bandwidths of all links, the memory of all devices and the batch, each halved and doubled.
/// The plans are those of the search and the kept one: the grid of presets is not tried again.
///
///   kept      the plan; its ranks stay as many
///   name      of an op or a value of its program
///   requires  planned.constraints holds for `kept`
///   time      six plan searches
std::vector<Sensitivity> sensitivities(const Planned& planned, const Plan& kept,
                                       const std::string& name);

/// The devices of the best plan, one less and one more, and the bandwidths of all links, halved and
/// doubled. Where the cluster has no further device, its last machine gets one; a machine whose
/// levels join several groups of devices gets none, and the change is left out. On another number
/// of devices the plan as it is does not run. No change of devices under a mesh that is fixed by
/// marks.
///
///   requires  planned.best()
///   time      four plan searches
std::vector<Sensitivity> device_sensitivities(const Planned& planned);

/// Products in bf16, which is for the user to choose, since it changes results; nullopt where they
/// are not f32. A plan that says the placement of every op does not say those of the casts, so as
/// it is it does not run.
///
///   requires  planned.best()
///   time      one plan search
std::optional<Sensitivity> precision_sensitivity(const Planned& planned);

}  // namespace tessera
