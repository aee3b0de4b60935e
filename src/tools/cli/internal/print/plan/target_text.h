// The result of `tessera plan --target` as text for readers and as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/files/document.h"
#include "tools/cli/internal/run/target_plan.h"

namespace tessera {

/// A flag of the present setting that the best one has otherwise: its lines, "" for none.
struct ChangedFlag {
  std::string before, now;
};
std::vector<ChangedFlag> changed_flags(const std::vector<Flag>& present,
                                       const std::vector<Flag>& best);

/// What the best setting takes; what the present one needs and loses, and which flags change; what
/// a plan without the rules of the target would gain. A line each.
std::string target_verdict(const TargetPlanned& found);
/// The settings that were simulated, the best first.
std::string target_ranking(const TargetPlanned& found);
Document target_document(const TargetPlanned& found);

}  // namespace tessera
