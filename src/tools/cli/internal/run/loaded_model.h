// Functions for the commands that use a model from a checkpoint.
#pragma once

#include <memory>

#include "tools/cli/internal/shared_options.h"
#include "training/engine/checkpointing.h"

namespace tessera {

/// The run of a checkpoint with the overrides and the plan of the command line.
///   throws  UserError of the checkpoint, the overrides, the plan, or of ranks that the plan
///           does not have
StoredRun open_stored_run(const Checkpoint& checkpoint, const CheckpointOptions& options);

/// The ranks of the plan of such a run.
int stored_rank_count(const CheckpointOptions& options);

/// An engine that evaluates, with the variables of the checkpoint.
///   throws  UserError (78) when the plan was made for another model
Engine load_model(const Checkpoint& checkpoint, const StoredRun& run,
                  std::shared_ptr<const RunData> data, RuntimeOptions runtime);

}  // namespace tessera
