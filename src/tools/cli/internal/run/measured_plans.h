// --measure-top K: the best plans are run on this machine, and the fastest is taken.
#pragma once

#include <cstdint>

#include "tools/cli/internal/run/plan_search.h"

namespace tessera {

/// Refuses what cannot be measured on this machine before anything is planned.
///   throws  UserError (2) for a cluster whose devices are not the cores of one machine
void check_can_measure(const Cluster& cluster, const std::string& cluster_name);

/// Runs those `count` plans of the result that are predicted to be the fastest, with their ranks
/// as threads of this process, and makes the fastest one the best plan.
///
///   throws  UserError of the data of the configuration, and of a run
void measure_best(Planned& planned, int64_t count);

}  // namespace tessera
