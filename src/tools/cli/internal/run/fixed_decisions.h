// What the configuration and the command line fix of a plan that is to be found.
#pragma once

#include <string>

#include "ir/graph/graph.h"
#include "planner/search/sources/incumbents.h"
#include "training/config/config.h"

namespace tessera {

/// The constraints of [parallel] and of --fix. Both hold.
///
///   file   its [parallel] binds: the degrees of a preset with its other keys that have one value,
///          and marks on one mesh
///   fixed  --fix: degrees and other keys of a preset, or a plan file, whose marks bind; "":
///   nothing graph  the training graph; a plan file has to fit it throws UserError (78) when the
///   two contradict each other, and as constraints_of and
///          with_marks_of
PlanConstraints fixed_decisions(const ConfigFile& file, const std::string& fixed,
                                const Graph& graph, int ranks, bool may_use_fewer);

}  // namespace tessera
