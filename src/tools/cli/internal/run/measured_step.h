// The step of a run that is made to be measured.
#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "compiler/plan/plan.h"
#include "training/config/config.h"
#include "training/engine/run_data.h"

namespace tessera {

/// Trains on threads of this machine.
///   config   resolved for `plan`; its sizes are those of `data`
///   steps    0: for half a second, at least 12
///   returns  the shortest step, which other jobs disturb least
Seconds measure_step(const RunConfig& config, const Plan& plan,
                     const std::shared_ptr<const RunData>& data, int64_t steps);

}  // namespace tessera
