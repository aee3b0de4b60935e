// Checkpoints of an engine: every rank stores what it owns and loads what it needs, under the same
// plan or any other.
//
//   state.json   step; data: the position in the text and what its order follows from; plan: its
//   name; settings: the resolved
//                configuration; vocabulary: the characters, or null for bytes
//   plan.json    the plan, stamped for the model
#pragma once

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"

namespace tessera {

/// Stores the run as it stands after step_count() steps. Of replicas the first holder stores its
/// own.
///
///   keep_last  checkpoints that stay, this one with them; 0: all
///   requires   the engine trains
///   throws     UserError (1) when something cannot be written; the checkpoints before stay good,
///   and the engine can go on memory     no rank holds more than its own parts and a block of them
///   members    of several, each stores what its ranks own, into the same folder; the one that
///   speaks begins and commits
void save_checkpoint(Engine& engine, CheckpointFolder& folder, int keep_last);

/// Takes variables, step and position in the text from a checkpoint; each rank reads the boxes that
/// it needs. The run then goes on as the one that was stored: under its plan with the same bits,
/// under another with the same batches and equal up to rounding.
///
///   kEvaluate  the variables of the model only
///   throws     UserError (65): another model or optimizer, another text, batch or order of
///   samples, or a damaged file, with the newest
///              earlier checkpoint that is good; the variables are then undefined
void restore(Engine& engine, const Checkpoint& checkpoint);

/// What was stored of a run besides its variables.
struct StoredRun {
  RunConfig config;  // with the overrides; its model has its vocabulary
  Plan plan;
  std::optional<Vocabulary> vocabulary;  // none: bytes
};
/// throws  UserError: 65 when state or plan is none of save_checkpoint's, 78 from overrides
StoredRun stored_run(const Checkpoint& checkpoint, const std::vector<std::string>& sets = {});

/// The checkpoint that `path` means: one itself, or the latest complete one of a folder of
/// checkpoints, or of the folder of a run, which keeps them in "checkpoints". A warning says which
/// later ones are damaged.
///
///   throws  UserError: 66 there is none, 65 there are only damaged ones, with what is wrong with
///   the last
std::filesystem::path find_checkpoint(FileSystem& files, const std::filesystem::path& path);

}  // namespace tessera
