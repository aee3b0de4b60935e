#include "tools/cli/internal/run/loaded_model.h"

#include "tools/cli/internal/run/session.h"

namespace tessera {

StoredRun open_stored_run(const Checkpoint& checkpoint, const CheckpointOptions& options) {
  StoredRun run = stored_run(checkpoint, options.overrides.sets);
  run.plan = chosen_plan(options.plan, run.plan, [&] { return training_graph(run.config); });
  return run;
}

int stored_rank_count(const CheckpointOptions& options) {
  RealFileSystem disk;
  const Checkpoint checkpoint(disk, find_checkpoint(disk, options.path));
  return open_stored_run(checkpoint, options).plan.rank_count();
}

Engine load_model(const Checkpoint& checkpoint, const StoredRun& run,
                  std::shared_ptr<const RunData> data, RuntimeOptions runtime) {
  Engine engine(
      run.config, run.plan, std::move(data),
      {.runtime = std::move(runtime), .purpose = Purpose::kEvaluate, .initialize = false});
  restore(engine, checkpoint);
  return engine;
}

}  // namespace tessera
