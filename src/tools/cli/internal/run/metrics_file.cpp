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
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) return {};
  return split_text(read_file(file), '\n');
}

}  // namespace

void truncate_metrics(const std::filesystem::path& file, int64_t step) {
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) return;
  std::string kept;
  for (const std::string& line : lines_of(file))
    if (step_of(read_line(line)) <= step) kept += line + "\n";
  write_file(file, kept);
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

std::vector<HeldOutLoss> held_out_losses(const std::filesystem::path& file, int64_t step) {
  std::vector<HeldOutLoss> losses;
  for (const std::string& text : lines_of(file)) {
    const Document line = read_line(text);
    const int64_t at = step_of(line);
    const Document* loss = at <= step ? line.find("val_loss") : nullptr;
    if (loss && loss->is_number()) losses.push_back({at, loss->as_double()});
  }
  return losses;
}

}  // namespace tessera
