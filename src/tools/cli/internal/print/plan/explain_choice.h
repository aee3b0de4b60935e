// The price of a placement in a plan that was found: `tessera explain CONFIG --plan auto NAME`, and
// `tessera plan CONFIG --explain NAME`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/document.h"
#include "planner/search/answers/choice_prices.h"
#include "tools/cli/internal/run/sensitivity.h"

namespace tessera {

/// An op, an input or a variable, and why it is placed as it is.
struct ExplainedChoice {
  std::string name;
  std::string placement;               // in the plan: choice_text
  std::optional<ChoicePrices> prices;  // nullopt: the plan has stages or micro-batches
  std::vector<Sensitivity> changes;
};

/// Explains the placement of the first op or value of the plan that `pattern` matches, ops and
/// values of the forward first.
///   throws  UserError (2) when it matches nothing
ExplainedChoice explained_choice(const Planned& planned, const Plan& plan,
                                 const std::string& pattern);

std::string choice_text(const ExplainedChoice& choice);
/// A table of changes without placements.
std::string sensitivity_text(const std::vector<Sensitivity>& changes);
/// [{change, kept_seconds, best_seconds, plan, placement}]
Document sensitivity_document(const std::vector<Sensitivity>& changes);
/// {name, placement, changes: [{change, kept_seconds, best_seconds, plan, placement}]}; of a plan
/// that is searched also {identical, chosen: {placement, kernel_seconds, problem_seconds}, others,
/// not_priced, best_seconds, is_fixed, unfixed_seconds, memory_binds, any_memory_seconds,
/// any_memory_placement}
Document choice_document(const ExplainedChoice& choice);

}  // namespace tessera
