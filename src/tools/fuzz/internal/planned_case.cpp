#include "tools/fuzz/internal/planned_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"
#include "planner/search/find_plan.h"
#include "tools/fuzz/internal/dice.h"

namespace tessera::fuzz {
namespace {

/// Presets for each case: the case shall be quick.
constexpr int64_t kPresets = 4;

/// From a hundredth of `value` to a hundred times it.
double around(double value, Dice& dice) {
  return value * std::pow(10.0, 0.5 * static_cast<double>(dice.between(-4, 4)));
}

void change(LinkLevel& level, Dice& dice) {
  level.link.latency = Seconds(around(level.link.latency.value(), dice));
  level.link.bytes_per_second = around(level.link.bytes_per_second, dice);
}

PlanSearchOptions options_for(const FuzzCase& given, const Cluster& cluster) {
  Dice dice(given.seed, "devices");
  const int ranks = static_cast<int>(dice.between(2, cluster.device_count()));
  PlanSearchOptions options{.constraints = constraints_of(ranks, given.seed % 2 == 0)};
  options.max_presets = kPresets;
  return options;
}

void check_result(const PlanSearchResult& result) {
  const EvaluatedCandidate& best = result.candidates[*result.best];
  ensure(best.fits(), "the best plan fits the memory of its devices");
  for (const ExcludedCandidate& excluded : result.excluded)
    ensure(excluded.bound > best.step(),
           "'" + excluded.name + "' is excluded, and its bound is below the step of the best plan");
}

/// Compares with an answer for which every candidate was compiled. That one may be slower: savings
/// are tried for the fastest preset, and of several that are equal one may have been left out.
void check_excluded(const PlanSearchResult& result, const PlanSearchResult& all) {
  ensure(result.best.has_value() == all.best.has_value(),
         "what is excluded does not decide whether a plan fits");
  if (!result.best) return;
  const EvaluatedCandidate &found = result.candidates[*result.best],
                           &smallest = all.candidates[*all.best];
  const Seconds step = found.step();
  ensure(step <= smallest.step(),
         fmt::format("the best plan '{}' takes {} s, and of all candidates '{}' takes least, {} s",
                     found.candidate.name, step.value(), smallest.candidate.name,
                     smallest.step().value()));
  for (const ExcludedCandidate& excluded : result.excluded)
    for (const EvaluatedCandidate& candidate : all.candidates)
      ensure(candidate.candidate.name != excluded.name || excluded.bound <= candidate.step(),
             "the step of '" + excluded.name + "' is below its bound");
}

}  // namespace

Cluster random_cluster(uint64_t seed) {
  Dice dice(seed, "cluster");
  const std::vector<std::string> lines{"cpu:2", "cpu:4", "3xa100-80g", "4xa100-80g",
                                       "2x2xa100-80g"};
  ClusterDescription description = parse_cluster_line(dice.pick(lines)).description();
  for (DeviceType& type : description.types) {
    type.cost.flops_per_second = around(type.cost.flops_per_second, dice);
    type.cost.bytes_per_second = around(type.cost.bytes_per_second, dice);
    type.cost.launch = Seconds(around(type.cost.launch.value(), dice));
    if (!dice.chance(1.0 / 3)) continue;
    type.reserve = Bytes(0);
    type.memory = Bytes(dice.between(1, 64) * 256);
  }
  for (MachineGroup& machine : description.machines)
    for (InnerLevel& inner : machine.levels) change(inner.level, dice);
  for (NetworkLevel& network : description.network) change(network.level, dice);
  return Cluster(std::move(description));
}

std::optional<Plan> planned(const FuzzCase& given, const Graph& graph, PlannedCases& counted) {
  const Cluster cluster = random_cluster(given.seed);
  PlanSearchOptions options = options_for(given, cluster);
  const PlanSearchResult result = find_plan({graph, cluster}, options);
  counted.excluded += std::ssize(result.excluded);
  if (result.best) check_result(result);
  if (given.seed % 8 == 0) {
    options.excludes = false;
    options.sources = all_searches();
    check_excluded(result, find_plan({graph, cluster}, options));
  }
  if (!result.best) {
    ++counted.none;
    return std::nullopt;
  }
  const Candidate& best = result.candidates[*result.best].candidate;
  switch (best.source) {
    case Candidate::Source::kSearch:
    case Candidate::Source::kPipeline: ++counted.searched; break;
    case Candidate::Source::kPreset: ++counted.presets; break;
    default: ++counted.serial; break;
  }
  return best.plan;
}

}  // namespace tessera::fuzz
