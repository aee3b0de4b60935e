#include "tools/cli/internal/run/run_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/text/count_text.h"
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

RunCheckpoints::RunCheckpoints(FileSystem& files, const fs::path& run, Engine& engine,
                               const std::vector<double>& earlier)
    : engine_(engine), folder_(files, run / "checkpoints") {
  // Each checkpoint has it. It is that of the data as they are now, which may change.
  engine.batches().data().train->fingerprint();
  if (engine.config().checkpoint.every > 0) background_.emplace(engine_, folder_);
  for (const double loss : earlier) losses_.add(loss);
  // The one that is resumed is proven by the next loss. Until then there may be one before it.
  for (const int64_t step : folder_.steps()) {
    if (step > engine.step_count()) break;
    proven_ = newest_;
    newest_ = step;
  }
}

void RunCheckpoints::take_loss(double loss) {
  loss_ = loss;
  is_sound_ = losses_.add(loss);
  if (!is_sound_) return;
  warned_ = false;
  if (newest_) proven_ = newest_;
}

void RunCheckpoints::warn_of_loss() {
  if (is_sound_ || std::exchange(warned_, true) || !engine_.runtime().is_leader()) return;
  log_warning(fmt::format(
      "the loss of step {}, {:.4g}, is far outside of the last ones (median {:.4g}, spread "
      "{:.2g}): "
      "the checkpoint does not replace the last good one{}; a lower optimizer.learning_rate or "
      "optimizer.clip_norm may help",
      engine_.step_count(), loss_, losses_.median(), losses_.spread(),
      proven_ ? ", " + checkpoint_name(*proven_) : ""));
}

void RunCheckpoints::save() {
  if (saved_step_ == engine_.step_count()) return;
  warn_of_loss();
  const Retention retention(engine_.config().checkpoint.keep_last, is_sound_, proven_);
  if (background_)
    background_->begin(retention);
  else
    save_checkpoint(engine_, folder_, retention);
  saved_step_ = newest_ = engine_.step_count();
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

void restore_good(Engine& engine, FileSystem& files, std::unique_ptr<Checkpoint>& checkpoint) try {
  restore(engine, *checkpoint);
} catch (const UserError& error) {
  if (error.exit_code() != ExitCode::kBadData) throw;
  const CheckpointFolder folder(files, checkpoint->folder().parent_path());
  const bool is_damaged = !folder.damage(checkpoint->step(), true).empty();
  const auto good = is_damaged ? folder.good_before(checkpoint->step()) : std::nullopt;
  if (!good) throw;
  log_warning("the checkpoint '" + checkpoint->folder().string() + "' is damaged: " +
              error.what_happened() + "; the run goes on from " + checkpoint_name(*good));
  checkpoint = std::make_unique<Checkpoint>(files, folder.path_of(*good));
  restore(engine, *checkpoint);
}

bool has_checkpoint(FileSystem& files, const fs::path& run) {
  return std::ranges::any_of(std::array{"checkpoints", "best"}, [&](const char* name) {
    std::error_code error;
    const fs::path folder = run / name;
    return fs::is_directory(folder, error) && !CheckpointFolder(files, folder).steps().empty();
  });
}

std::optional<fs::path> checkpoint_to_resume(FileSystem& files,
                                             const std::optional<std::string>& resume,
                                             const std::string& out) {
  if (!resume) return std::nullopt;
  if (!resume->empty()) return find_checkpoint(files, *resume);
  const fs::path run = out;
  for (const char* place : {"checkpoints", "best"})
    if (!CheckpointFolder(files, run / place).steps().empty())
      return find_checkpoint(files, run / place);
  return std::nullopt;
}

std::string changed_settings_text(const Document& stored, const Document& present) {
  std::string lines;
  for (const std::string& change : changed_settings(stored, present))
    if (!changes_no_step(change)) lines += change + "\n";
  return lines;
}

std::string rate_jump_note(const Schedule& stored, const Schedule& present, int64_t step) {
  if (present.steps <= step) return "";  // no step follows
  const double expected = learning_rate(stored, step), next = learning_rate(present, step);
  if (std::abs(next - expected) <= kRateJump * std::max(std::abs(next), std::abs(expected)))
    return "";
  return fmt::format(
      "note: the learning rate jumps: step {} has {:.3g}, where the stored run would have "
      "{:.3g}{}\n",
      grouped(step + 1), next, expected,
      present.steps == stored.steps
          ? ""
          : fmt::format("; the schedule is now that of {}", counted(present.steps, "step")));
}

}  // namespace tessera
