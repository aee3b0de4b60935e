#include "cli/run/loaded_model.h"

namespace tessera {

StoredRun open_stored_run(const Checkpoint& checkpoint, const Arguments& arguments) {
  StoredRun run = stored_run(checkpoint, arguments.sets);
  if (arguments.plan)
    run.plan = *arguments.plan == "serial" ? serial_plan() : read_plan(*arguments.plan);
  if (arguments.ranks) check_ranks(run.plan, *arguments.ranks);
  return run;
}

Engine load_model(const Checkpoint& checkpoint, const StoredRun& run,
                  std::shared_ptr<const RunData> data, RuntimeOptions runtime) {
  Engine engine(run.config, run.plan, std::move(data),
                {.runtime = std::move(runtime), .purpose = Purpose::kEvaluate, .draw = false});
  restore(engine, checkpoint);
  return engine;
}

}  // namespace tessera
