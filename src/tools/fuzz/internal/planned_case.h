// The planner in random cases: its plan runs instead of that of the case, so it has to compute what
// the serial program computes.
#pragma once

#include <cstdint>
#include <optional>

#include "cluster/cluster/cluster.h"
#include "compiler/plan/plan.h"
#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {

/// Two to four devices of one or two machines, whose rates, latencies and memory are random; of
/// every third cluster the memory is so small that many plans do not fit.
Cluster random_cluster(uint64_t seed);

/// How many plans were found, by what they are.
struct PlannedCases {
  int64_t searched = 0, presets = 0, serial = 0;
  int64_t none = 0;      // no plan fits
  int64_t excluded = 0;  // candidates that were not compiled, of all cases
};

/// The plan that find_plan gives for the graph on random_cluster(given.seed), which may use fewer
/// devices for every second seed. For every eighth seed the candidates that it excluded are
/// compiled, too.
///
///   counted  adds the plan
///   returns  nullopt when no plan fits
///   throws   InternalError when a candidate that fits is faster than the best plan, when the best
///            plan does not fit, or when a step is below its bound
std::optional<Plan> planned(const FuzzCase& given, const Graph& graph, PlannedCases& counted);

}  // namespace tessera::fuzz
