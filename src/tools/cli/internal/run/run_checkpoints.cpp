#include "tools/cli/internal/run/run_checkpoints.h"

#include <algorithm>
#include <limits>

#include "training/config/setting_changes.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// Is it a setting of checkpoints or evaluations, which does not change any step?
bool changes_no_step(const std::string& change) {
  return change.starts_with("checkpoint.") || change.starts_with("train.evaluate_") ||
         change.starts_with("train.patience ") || change.starts_with("train.min_improvement ");
}

}  // namespace

RunCheckpoints::RunCheckpoints(FileSystem& files, const fs::path& run, Engine& engine)
    : engine_(engine), folder_(files, run / "checkpoints") {
  if (engine.config().checkpoint.every > 0) background_.emplace(engine_, folder_);
}

void RunCheckpoints::save() {
  if (saved_step_ == engine_.step_count()) return;
  const int keep_last = engine_.config().checkpoint.keep_last;
  if (background_)
    background_->begin(keep_last);
  else
    save_checkpoint(engine_, folder_, keep_last);
  saved_step_ = engine_.step_count();
}

void RunCheckpoints::poll(bool any_is_writing) {
  if (background_) background_->poll(any_is_writing);
}

void RunCheckpoints::finish() {
  if (background_) background_->finish();
}

fs::path RunCheckpoints::last() const {
  return folder_.path_of(saved_step_.value());
}

BestCheckpoint::BestCheckpoint(FileSystem& files, const fs::path& run, Engine& engine,
                               const std::vector<HeldOutLoss>& earlier)
    : engine_(engine),
      folder_(files, run / "best"),
      best_loss_(std::numeric_limits<double>::infinity()) {
  for (const HeldOutLoss& evaluation : earlier) best_loss_ = std::min(best_loss_, evaluation.loss);
}

void BestCheckpoint::on_evaluate(const TrainingState& state, TrainingControl&) {
  if (!(state.evaluation->loss < best_loss_)) return;
  save_checkpoint(engine_, folder_, 1);
  best_loss_ = state.evaluation->loss;
}

std::optional<fs::path> checkpoint_to_resume(FileSystem& files,
                                             const std::optional<std::string>& resume,
                                             const std::string& out) {
  if (!resume) return std::nullopt;
  return find_checkpoint(files, resume->empty() ? out : *resume);
}

std::string changed_settings_text(const Document& stored, const Document& present) {
  std::string lines;
  for (const std::string& change : changed_settings(stored, present))
    if (!changes_no_step(change)) lines += change + "\n";
  return lines;
}

}  // namespace tessera
