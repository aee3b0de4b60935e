// Prepares the metrics.jsonl of a run that is resumed or begun again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "training/fit/callbacks.h"

namespace tessera {

/// Removes the lines of the steps after `step`, where the run resumes, and an incomplete last line.
/// Does nothing when there is no such file.
void truncate_metrics(const std::filesystem::path& file, int64_t step);

/// Renames the file to metrics.1.jsonl, or the first number that is free.
///   returns  the new path; nullopt when there is no such file or it is empty
///   throws   UserError (1) when it cannot be renamed
std::optional<std::filesystem::path> put_metrics_aside(const std::filesystem::path& file);

/// The losses of the steps up to `step`, in order. Empty when there is no such file.
std::vector<double> step_losses(const std::filesystem::path& file, int64_t step);

/// The held-out losses of the evaluations up to `step`, in order. Empty when there is no such file.
std::vector<HeldOutLoss> held_out_losses(const std::filesystem::path& file, int64_t step);

}  // namespace tessera
