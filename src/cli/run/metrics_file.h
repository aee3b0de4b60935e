// Prepares the metrics.jsonl of a run that is resumed.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tessera {

/// Removes the lines of the steps after `step`, where the run resumes, and an incomplete last line.
/// Does nothing when there is no such file.
void truncate_metrics(const std::filesystem::path& file, int64_t step);

}  // namespace tessera
