#include "tools/cli/internal/run/run_folder.h"

#include <system_error>

#include "base/error.h"
#include "base/files/file.h"
#include "tools/cli/internal/run/metrics_file.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {
namespace {

constexpr int64_t kStepsBetweenLinesOfRanks = 10;

/// Makes the folder and writes the plan and the settings.
void begin(const std::filesystem::path& folder, const Engine& engine) {
  std::error_code error;
  if (engine.step_count() == 0 && std::filesystem::exists(folder / "metrics.jsonl", error))
    throw UserError("'" + folder.string() + "' holds a run already",
                    "a run that begins does not write over the metrics of another",
                    "continue it with --resume, choose another --out, or remove the folder when "
                    "that run is not needed",
                    ExitCode::kUsage);
  for (const std::filesystem::path& path : {folder, folder / "checkpoints", folder / "logs"}) {
    std::filesystem::create_directories(path, error);
    if (error)
      throw UserError("cannot write '" + path.string() + "'", error.message(),
                      "check that the folder may be written and that the disk has free space, or "
                      "choose another --out");
  }
  write_file(folder / "plan.json", to_json(to_document(engine.plan(), engine.graph(),
                                                       rewritten_fingerprint(engine.compiled())),
                                           2) +
                                       "\n");
  write_file(folder / "config.json", to_json(resolved_settings(engine.config()), 2) + "\n");
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
