// The checkpoints that a run writes into its folder, and the one that it resumes from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "training/engine/checkpointing.h"
#include "training/engine/checkpoints/background_save.h"
#include "training/fit/callbacks.h"
#include "training/fit/loss_history.h"

namespace tessera {

/// Writes checkpoints of `engine` into the folder "checkpoints" of a run, when fit() asks for it:
/// with checkpoint.every in the background, from a snapshot, while training goes on.
///
/// One whose loss is far outside of those before it (LossHistory) does not replace the last good
/// one, and a warning says so. The loss of a step is that of the state before it, so a checkpoint
/// is proven good by the next loss; the last proven one is kept besides keep_last.
///
///   throws  UserError (1) when one cannot be written; earlier ones stay valid
class RunCheckpoints {
 public:
  /// `files` and `engine` outlive it.
  ///   earlier  of a run that is resumed: the losses of its steps
  RunCheckpoints(FileSystem& files, const std::filesystem::path& run, Engine& engine,
                 const std::vector<double>& earlier = {});
  /// After each step.
  void take_loss(double loss);
  /// Saves this step, or begins to in the background, unless that was done already.
  void save();
  /// Is a save in the background at work in this process?
  bool is_writing() const { return background_ && background_->is_writing(); }
  /// Between two steps: continues a save in the background.  any_is_writing  in any process
  void poll(bool any_is_writing);
  /// Waits until all is stored.
  void finish();
  /// The last stored checkpoint, after finish().
  std::filesystem::path last() const;

 private:
  void warn_of_loss();

  Engine& engine_;
  CheckpointFolder folder_;
  LossHistory losses_;
  double loss_ = 0;       // of the last step
  bool is_sound_ = true;  // is it like those before it?
  bool warned_ = false;   // of the present losses
  std::optional<int64_t> newest_, proven_;
  std::optional<int64_t> saved_step_;
  std::optional<BackgroundSave>
      background_;  // without checkpoint.every: none is saved before the end
};

/// Keeps the checkpoint with the best held-out loss in the folder "best" of a run. Training waits
/// until it is stored, as it waits for the evaluation.
class BestCheckpoint : public Callback {
 public:
  /// `files` and `engine` outlive it.
  ///   earlier  of a run that is resumed: the losses of its evaluations
  BestCheckpoint(FileSystem& files, const std::filesystem::path& run, Engine& engine,
                 const std::vector<HeldOutLoss>& earlier);

  /// It acts on evaluations only, and no step is in flight during an evaluation.
  CallbackNeeds needs(int64_t) const override { return CallbackNeeds::kMetricsOnly; }
  void on_evaluate(const TrainingState& state, TrainingControl&) override;

 private:
  Engine& engine_;
  CheckpointFolder folder_;
  double best_loss_;
};

/// Restores a checkpoint, or the newest earlier one whose every byte is good when it is damaged,
/// with a warning; `checkpoint` is then that one.
///   throws  as restore, when it is not damaged or no earlier one is good
void restore_good(Engine& engine, FileSystem& files, std::unique_ptr<Checkpoint>& checkpoint);

/// Does the folder of a run have a checkpoint, whole or damaged?
bool has_checkpoint(FileSystem& files, const std::filesystem::path& run);

/// The checkpoint that --resume asks for: the latest one in the run folder `out` when its value is
/// "", or its best one when it has no other. nullopt without the option, and when `out` has no
/// checkpoint: the run then begins at step 1.
///   throws  UserError: 66 when there is no checkpoint of that path; 65 when all are damaged
std::optional<std::filesystem::path> checkpoint_to_resume(FileSystem& files,
                                                          const std::optional<std::string>& resume,
                                                          const std::string& out);

/// One line for each setting that differs from the stored run: "optimizer.learning_rate was
/// 0.002 and is 0.001".
std::string changed_settings_text(const Document& stored, const Document& present);

/// Says that the learning rate jumps at the step after `step`, because the schedule is another one
/// than that of the stored run, such as a cosine over more steps: "note: ...\n". "" without a jump
/// of kRateJump.
std::string rate_jump_note(const Schedule& stored, const Schedule& present, int64_t step);
inline constexpr double kRateJump = 0.01;  // a part of the rate

}  // namespace tessera
