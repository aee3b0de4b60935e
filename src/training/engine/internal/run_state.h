// The state of a run apart from the execution of its steps (training/engine/internal/execution.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "training/config/config.h"
#include "training/engine/internal/data/batch_source.h"

namespace tessera {

/// The position of a run in its data.
struct DataPosition {
  int64_t step = 0;  // steps done
  /// The number of the next batch, through all epochs. With accumulation a step takes several
  /// batches.
  int64_t batch = 0;
  int64_t parts = 1;  // data-parallel parts that the sampler divides a batch into
  std::vector<int64_t> part_weights = {};  // empty: the parts are equal
};

/// What a run has reached, whatever plan executes it: the number of the step, the learning rate,
/// and the position in the data; the seed and the schedule are in its settings. The variables
/// belong to the state too, but each rank of the execution holds its parts of them:
/// Execution::take_variables().
class RunState {
 public:
  /// `settings` outlives it.
  RunState(const TrainingSettings& settings, std::shared_ptr<const RunData> data)
      : settings_(settings), batches_(settings, std::move(data)) {}

  const TrainingSettings& settings() const { return settings_; }
  BatchSource& batches() { return batches_; }
  const BatchSource& batches() const { return batches_; }

  /// The number of steps that have ended.
  int64_t steps_done() const { return steps_done_; }
  void set_steps_done(int64_t steps) { steps_done_ = steps; }

  /// The learning rate of step number `step`.
  double rate(int64_t step) const {
    return own_rate_.value_or(learning_rate(settings_.optimizer.schedule, step));
  }
  /// Replaces the rate of the schedule; nullopt restores the schedule.
  void set_rate(std::optional<double> rate) { own_rate_ = rate; }
  const std::optional<double>& own_rate() const { return own_rate_; }

  void set_position(const DataPosition& position) {
    batches_.set_position(position.batch, position.parts, position.part_weights);
    steps_done_ = position.step;
  }

 private:
  const TrainingSettings& settings_;
  BatchSource batches_;
  int64_t steps_done_ = 0;
  std::optional<double> own_rate_;
};

}  // namespace tessera
