// Checkpoints of an engine: every rank stores the parts that it owns and loads the parts that it
// needs, under the same plan or any other.
//
//   state.json   step
//                learning_rate: only when Engine::set_learning_rate replaced the schedule
//                data: the position in the text, and the settings that determine its order
//                plan: the name of the plan
//                settings: the resolved configuration; without [model] and [data] when a program
//                made the network
//                vocabulary: the characters, or null for bytes
//   plan.json    the plan, stamped for the model
#pragma once

#include "training/checkpoint/checkpoint.h"
#include "training/engine/engine.h"

namespace tessera {

/// Stores the state of the run after step_count() steps. Of replicas, the first holder stores its
/// own.
///
///   retention  the number of checkpoints that are kept, including this one; 0: all. With is_good
///              false the last good one is kept besides
///   requires   the engine trains
///   throws     UserError (1) when something cannot be written; earlier checkpoints stay good, and
///              the engine can continue
///   memory     no rank holds more than its own parts and a block of them
///   processes  each process stores the parts of its ranks into the same folder; the leader begins
///              and commits
void save_checkpoint(Engine& engine, CheckpointFolder& folder, const Retention& retention);

/// Loads variables, step, learning rate and position in the text from a checkpoint; each rank reads
/// the boxes that it needs. The run then continues as the stored one: under its plan with the same
/// bits, under another plan with the same batches and equal up to rounding.
///
///   kEvaluate  only the variables of the model are loaded
///   processes  all give the same checkpoint
///   throws     UserError (1) when processes give different checkpoints, in all of them;
///              UserError (65) for another model or optimizer, another text, batch or order of
///              samples, or a damaged file; it names the newest earlier checkpoint that is good.
///              The variables are then undefined
void restore(Engine& engine, const Checkpoint& checkpoint);

/// Loads only the parameters, those of a run with another optimizer or another batch, too. The run
/// begins at step 0, with new state of its optimizer. Parameters that low-rank adaptation adds
/// (ir/models/lora.h) and the checkpoint lacks keep their initial values.
///
///   processes  as restore
///   throws     UserError (1) as restore; UserError (65) that names a parameter that is missing or
///              of another type, and for a damaged file
void load_parameters(Engine& engine, const Checkpoint& checkpoint);

/// The part of a stored run besides its variables.
struct StoredRun {
  RunConfig config;  // with the overrides; its model has its vocabulary
  Plan plan;
  std::optional<Vocabulary> vocabulary;  // nullopt: bytes
};
///   throws  UserError: 65 when state or plan is not one that save_checkpoint wrote, or a program
///           made the network; 78 for overrides
StoredRun stored_run(const Checkpoint& checkpoint, const std::vector<std::string>& sets = {});

/// The checkpoint that `path` refers to: the checkpoint itself, or the latest good one of a folder
/// of checkpoints, or of a run folder, which keeps them in "checkpoints". A warning names later
/// ones that are damaged, or whose losses were not sound.
///
///   throws  UserError: 66 when there is none, with those beside it; 65 when there are only damaged
///   ones, with the defect
///           of the last one
std::filesystem::path find_checkpoint(FileSystem& files, const std::filesystem::path& path);

}  // namespace tessera
