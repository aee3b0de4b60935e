#include "tools/cli/internal/run/output_files.h"

#include <system_error>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/open_file.h"
#include "training/checkpoint/checkpoint.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// The checkpoint that has `path` in it, or is it; "" when there is none.
fs::path checkpoint_around(const fs::path& path) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(path, error);
  if (error) return {};  // who opens it learns the reason
  for (; place.has_relative_path(); place = place.parent_path())
    if (step_of_name(place.filename().string()) && path_exists(place / "index.json")) return place;
  return {};
}

void refuse_checkpoint(const fs::path& path) {
  const fs::path checkpoint = checkpoint_around(path);
  if (checkpoint.empty()) return;
  throw UserError("'" + path.string() + "' is inside of a checkpoint",
                  "the files of '" + checkpoint.string() +
                      "' are written by a run only; any other file may replace one of them",
                  "choose a path outside of the folder of the run", ExitCode::kUsage);
}

}  // namespace

void check_output(const fs::path& path) {
  refuse_checkpoint(path);
  if (is_input(path))
    throw UserError("'" + path.string() + "' is read by this command",
                    "its result would replace what it was made from",
                    "choose another path for the result", ExitCode::kUsage);
  check_can_write(path);
}

void check_output_folder(const fs::path& path) {
  refuse_checkpoint(path);
}

void write_output(const fs::path& path, std::string_view text) {
  check_output(path);
  write_file(path, text);
}

}  // namespace tessera
