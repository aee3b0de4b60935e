#include "tools/cli/internal/run/run_folder.h"

#include <system_error>

#include "base/error.h"
#include "base/files/file.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/run/metrics_file.h"
#include "tools/cli/internal/run/run_checkpoints.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {
namespace {

constexpr int64_t kStepsBetweenLinesOfRanks = 10;

/// Refuses a folder with a checkpoint of another run, and puts the metrics of a run without one
/// aside.
void make_place(const std::filesystem::path& folder) {
  RealFileSystem disk;
  if (has_checkpoint(disk, folder))
    throw UserError("'" + folder.string() + "' holds a run already",
                    "a run that begins does not write over the checkpoints of another",
                    "continue it with --resume, choose another --out, or remove the folder when "
                    "that run is not needed",
                    ExitCode::kUsage);
  const std::optional<std::filesystem::path> aside = put_metrics_aside(folder / "metrics.jsonl");
  if (!aside) return;
  tell("note: the run in '" + folder.string() +
       "' ended before its first checkpoint: it begins again at step 1, and its metrics are in " +
       aside->filename().string() + "\n");
}

/// Makes the folder and writes the plan and the settings.
void begin(const std::filesystem::path& folder, const Engine& engine) {
  std::error_code error;
  if (engine.step_count() == 0) make_place(folder);
  for (const std::filesystem::path& path : {folder, folder / "checkpoints", folder / "logs"}) {
    std::filesystem::create_directories(path, error);
    if (error)
      throw UserError("cannot write '" + path.string() + "'", error.message(),
                      "check that the folder may be written and that the disk has free space, or "
                      "choose another --out");
  }
  write_own_file(
      folder / "plan.json",
      to_json(to_document(engine.plan(), engine.graph(), rewritten_fingerprint(engine.compiled())),
              2) +
          "\n");
  write_own_file(folder / "config.json", to_json(resolved_settings(engine.config()), 2) + "\n");
  truncate_metrics(folder / "metrics.jsonl", engine.step_count());
}

}  // namespace

RunFolder::RunFolder(const std::filesystem::path& folder, Engine& engine,
                     const std::optional<DevicePeak>& peak) {
  Runtime& runtime = engine.runtime();
  runtime.on_all_processes([&] {
    if (!runtime.is_leader()) return;
    begin(folder, engine);
    metrics_.emplace(folder / "metrics.jsonl", peak);
    events_.emplace(folder);
  });
  runtime.on_all_processes(
      [&] { ranks_.emplace(folder / "logs", engine, kStepsBetweenLinesOfRanks); });
}

std::vector<Callback*> RunFolder::callbacks() {
  std::vector<Callback*> writers;
  if (metrics_) writers.push_back(&*metrics_);
  writers.push_back(&*ranks_);
  if (events_) writers.push_back(&*events_);
  return writers;
}

}  // namespace tessera
