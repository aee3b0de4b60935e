// A predicted step as text for readers and as JSON.
#pragma once

#include <string>

#include "base/files/document.h"
#include "simulator/report/report.h"
#include "tools/cli/internal/run/predicted_run.h"

namespace tessera {

Document to_document(const PredictedRun& run);
/// The step, its efficiency, its memory, its critical path, and a table of the ranks.
std::string prediction_text(const PredictedRun& run);

/// The plan as the page of a report has it.
///   run, compiled  outlive the result
ReportedPlan reported(const std::string& name, const std::string& summary, const PredictedRun& run,
                      const Compiled& compiled);

}  // namespace tessera
