// A predicted step beside the measured one.
#pragma once

#include <string>
#include <vector>

#include "base/files/document.h"
#include "tools/cli/internal/run/measured_run.h"
#include "tools/cli/internal/run/predicted_run.h"
#include "training/fit/run_logs.h"

namespace tessera {

///     predicted        12.31 ms a step on 'cpu:2', 8.4% less than the measured 13.44 ms
///                      peak memory 43.8 MiB, as measured
std::string comparison_text(const PredictedRun& predicted, const MeasuredRun& measured);
/// The keys step_ms, measured_step_ms, step_error (of the measured step), peak_bytes,
/// measured_peak_bytes, mfu, hfu, bubble, exposed_comm_ms.
Document comparison_document(const PredictedRun& predicted, const MeasuredRun& measured);

/// For the records of the run.
DevicePeak peak_of(const PredictedRun& predicted);

}  // namespace tessera
