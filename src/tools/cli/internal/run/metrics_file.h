// Prepares the metrics.jsonl of a run that is resumed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "training/fit/callbacks.h"

namespace tessera {

/// Removes the lines of the steps after `step`, where the run resumes, and an incomplete last line.
/// Does nothing when there is no such file.
void truncate_metrics(const std::filesystem::path& file, int64_t step);

/// The held-out losses of the evaluations up to `step`, in order. Empty when there is no such file.
std::vector<HeldOutLoss> held_out_losses(const std::filesystem::path& file, int64_t step);

}  // namespace tessera
