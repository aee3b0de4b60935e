// The stages of a plan search: of plan --stages.
#pragma once

#include <string>

#include "base/files/document.h"
#include "planner/search/find_plan.h"

namespace tessera {

/// A title and a row for each stage, with all its rounds: their time, the candidates that they
/// added and the best step after them.
std::string search_stages_text(const PlanSearchResult& result);

/// [{name, explanation, has_run, seconds, candidates, best_seconds}]; best_seconds is null while
/// nothing fits.
Document search_stages_document(const PlanSearchResult& result);

}  // namespace tessera
