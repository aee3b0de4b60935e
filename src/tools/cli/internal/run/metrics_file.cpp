#include "tools/cli/internal/run/metrics_file.h"

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/file.h"
#include "base/text/text.h"

namespace tessera {
namespace {

/// The object of a line; null when the line is incomplete.
Document read_line(const std::string& line) try {
  Document document = parse_json(line, "metrics");
  return document.is_table() ? document : Document();
} catch (const UserError&) {
  return Document();
}

/// INT64_MAX when the line has none.
int64_t step_of(const Document& line) {
  const Document* step = line.is_table() ? line.find("step") : nullptr;
  return step && step->is_int() ? step->as_int() : INT64_MAX;
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  if (!path_exists(file)) return {};
  return split_text(read_own_file(file), '\n');
}

}  // namespace

void truncate_metrics(const std::filesystem::path& file, int64_t step) {
  if (!path_exists(file)) return;
  std::string kept;
  for (const std::string& line : lines_of(file))
    if (step_of(read_line(line)) <= step) kept += line + "\n";
  write_own_file(file, kept);
}

std::optional<std::filesystem::path> put_metrics_aside(const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown) || std::filesystem::file_size(file, unknown) == 0)
    return std::nullopt;
  std::filesystem::path aside;
  for (int number = 1; aside.empty() || std::filesystem::exists(aside, unknown); ++number)
    aside = file.parent_path() /
            (file.stem().string() + "." + std::to_string(number) + file.extension().string());
  std::error_code error;
  std::filesystem::rename(file, aside, error);
  if (error)
    throw UserError("cannot rename '" + file.string() + "'", error.message(),
                    "check that the folder may be written, or choose another --out");
  return aside;
}

namespace {

/// Calls take(step, value) for the number `key` of each line up to `step`.
template <typename Take>
void for_each_number(const std::filesystem::path& file, int64_t step, const char* key,
                     const Take& take) {
  for (const std::string& text : lines_of(file)) {
    const Document line = read_line(text);
    const int64_t at = step_of(line);
    const Document* number = at <= step ? line.find(key) : nullptr;
    if (number && number->is_number()) take(at, number->as_double());
  }
}

}  // namespace

std::vector<double> step_losses(const std::filesystem::path& file, int64_t step) {
  std::vector<double> losses;
  for_each_number(file, step, "loss", [&](int64_t, double loss) { losses.push_back(loss); });
  return losses;
}

std::vector<HeldOutLoss> held_out_losses(const std::filesystem::path& file, int64_t step) {
  std::vector<HeldOutLoss> losses;
  for_each_number(file, step, "val_loss",
                  [&](int64_t at, double loss) { losses.push_back({at, loss}); });
  return losses;
}

}  // namespace tessera
