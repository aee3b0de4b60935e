// The training steps of an execution, and those in flight.
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"
#include "training/engine/internal/programs/program_set.h"
#include "training/engine/internal/run_state.h"
#include "training/engine/internal/steps/in_flight_step.h"

namespace tessera {

struct StepResult {
  int64_t step = 0;  // counted from 0
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;  // 0 without clipping
  /// With f16: the factor of the loss in this step (else 0), and whether the step changed nothing
  /// because a gradient overflowed.
  double loss_scale = 0;
  bool skipped = false;
  int64_t tokens = 0;    // units of the batch: tokens, images, pixels, rows (Network::targets)
  Seconds time{0};       // without data_wait
  Seconds data_wait{0};  // time in which the step waited for the loader
  /// Runtime::mean_rank_time; nullopt when the step was made in parts, too.
  std::optional<RankTime> ranks = {};
};

class TrainingSteps {
 public:
  /// `programs` may be constructed after it. The runtime in `programs` uses the memory of the
  /// steps, so it is destroyed first.
  TrainingSteps(RunState& state, ProgramSet& programs) : state_(state), programs_(programs) {}

  int in_flight() const { return programs_.runtime().steps_in_flight(); }
  /// The number of the step that begins next.
  int64_t next() const { return state_.steps_done() + in_flight(); }

  /// Begins a step on a batch of the caller, which outlives the step.
  void begin(const Batch& batch, const Observer* observer);
  /// Begins a step on a batch of a BatchSource.
  void begin(BatchSource::Taken taken, const Observer* observer = nullptr);
  /// Ends the oldest step in flight and recycles its batch.
  ///   throws  UserError (5) when the loss is not a number
  StepResult end();

 private:
  InFlightStep& step(int64_t number) { return steps_[number % kMaxStepsInFlight]; }

  RunState& state_;
  ProgramSet& programs_;
  std::array<InFlightStep, kMaxStepsInFlight> steps_;  // in turn, by number
};

}  // namespace tessera
