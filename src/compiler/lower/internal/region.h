// Regions: the bodies of While and If, compiled as the whole program is, under the placements that
// the op has outside.
#pragma once

#include <memory>

#include "compiler/lower/partition.h"

namespace tessera {

/// Makes the task graphs of the op's regions.
///
///   ensures  check() holds for each; a predicate is made whole on every rank; carried values are
///            left in the registers and with the placements with which they were taken
///   throws   UserError (78) when an op inside needs the whole batch at once
std::shared_ptr<const Control> lower_control(const RegionSite& site);

}  // namespace tessera
