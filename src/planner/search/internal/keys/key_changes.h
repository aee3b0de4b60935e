// The keys of plans that a search changes: the values that are tried of each, and the plan with
// another value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/search/internal/candidates/candidate.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {

/// Values of keys as presets write them: {{"bucket_mib", "5"}}, and of degrees that change
/// together {{"dp", "4"}, {"tp", "2"}}. An empty value removes the key, which then has its default.
struct KeyChange {
  std::vector<std::pair<std::string_view, std::string>> values;

  bool operator==(const KeyChange&) const = default;
};

/// How many values of a key of numbers are tried.
enum class KeyRange {
  kAll,
  kNearest,  // to the value of the plan
};

/// The changes of one key that a plan can have and the constraints leave open, by key. Each value
/// that is no number is there; of numbers a few, which `range` says. First the keys that divide the
/// work, then those of memory, then those of exchanges. These are left out where no rank waits for
/// an exchange for more than SearchPolicy::exchanges_worth of the step.
///
///   known  simulated
///   time   microseconds
std::vector<std::vector<KeyChange>> key_changes(const PlanRequest& request,
                                                const PlanConstraints& constraints,
                                                const EvaluatedCandidate& known, KeyRange range);

/// A candidate with other values of keys, which its name says: "dp=2,bucket_mib=5". Placements that
/// depend on the key are made anew: those of presets, and of pipelines from their marks.
///   returns  nullopt when the model cannot have it
std::optional<Candidate> with_change(const PlanRequest& request, const PlanConstraints& constraints,
                                     const Candidate& candidate, const KeyChange& change);

}  // namespace tessera
