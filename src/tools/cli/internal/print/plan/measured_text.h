// The measured steps of the best candidates: of --measure-top.
#pragma once

#include <string>

#include "base/files/document.h"
#include "planner/search/find_plan.h"

namespace tessera {

/// Each function gives "" or null for a result without measured steps.

/// "dp=2 is the fastest of 3 plans in measured steps, 12.3 ms; tp=2, predicted to be the fastest,
/// takes 4.5% longer".
std::string measured_note(const PlanSearchResult& result);

/// A title and a row for each candidate with its predicted and its measured step.
std::string measured_text(const PlanSearchResult& result);

/// {steps, candidates: [{name, predicted_seconds, measured_seconds}], regret}
Document measured_document(const PlanSearchResult& result);

}  // namespace tessera
