// The metrics of a run that is resumed.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tessera {

/// Removes from a metrics.jsonl what its run did after step number `step`, and a last line that a
/// kill cut off: the run goes on there.
void keep_metrics_until(const std::filesystem::path& file, int64_t step);

}  // namespace tessera
