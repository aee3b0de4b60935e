// A predicted step as text for readers and as JSON.
#pragma once

#include <string>

#include "base/document.h"
#include "cli/run/predicted_run.h"

namespace tessera {

Document to_document(const PredictedRun& run);
/// The step, its efficiency, its memory, its critical path, and a table of the ranks.
std::string prediction_text(const PredictedRun& run);

}  // namespace tessera
