#include "cli/run/metrics_file.h"

#include "base/document.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tessera {
namespace {

/// The step of a line; INT64_MAX when the line is incomplete.
int64_t step_of(const std::string& line) try {
  const Document document = parse_json(line, "metrics");
  const Document* step = document.is_table() ? document.find("step") : nullptr;
  return step && step->is_int() ? step->as_int() : INT64_MAX;
} catch (const UserError&) {
  return INT64_MAX;
}

}  // namespace

void truncate_metrics(const std::filesystem::path& file, int64_t step) {
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) return;
  std::string kept;
  for (const std::string& line : split_text(read_file(file), '\n'))
    if (step_of(line) <= step) kept += line + "\n";
  write_file(file, kept);
}

}  // namespace tessera
