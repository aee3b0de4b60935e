// The training steps of an engine: their numbers, their learning rates, and those in flight.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "autodiff/optimizer.h"
#include "base/units.h"
#include "engine/batch_source.h"
#include "engine/in_flight_step.h"
#include "engine/program_set.h"

namespace tessera {

struct StepResult {
  int64_t step = 0;  // counted from 0
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;  // 0 without clipping
  int64_t tokens = 0;    // labels of the batch: tokens, images or pixels
  Seconds time{0};       // without data_wait
  Seconds data_wait{0};  // time in which the step waited for the loader
};

class TrainingSteps {
 public:
  /// `programs` may be constructed after it. The runtime in `programs` uses the memory of the
  /// steps, so it is destroyed first.
  TrainingSteps(const Schedule& schedule, ProgramSet& programs)
      : schedule_(schedule), programs_(programs) {}

  /// The number of steps that have ended.
  int64_t done() const { return done_; }
  void set_done(int64_t steps) { done_ = steps; }
  int in_flight() const { return programs_.runtime().steps_in_flight(); }
  /// The number of the step that begins next.
  int64_t next() const { return done_ + in_flight(); }
  /// The learning rate of the step that begins next.
  double rate() const { return own_rate_.value_or(learning_rate(schedule_, next())); }
  /// Replaces the rate of the schedule; nullopt restores the schedule.
  void set_rate(std::optional<double> rate) { own_rate_ = rate; }

  /// Begins a step on a batch of the caller, which outlives the step.
  void begin(const Batch& batch, const Observer* observer);
  /// Begins a step on a batch of a BatchSource.
  void begin(BatchSource::Taken taken);
  /// Ends the oldest step in flight and gives its batch back to `batches`.
  ///   throws  UserError (5) when the loss is not a number
  StepResult end(BatchSource& batches);

 private:
  InFlightStep& step(int64_t number) { return steps_[number % kMaxStepsInFlight]; }

  const Schedule& schedule_;
  ProgramSet& programs_;
  std::array<InFlightStep, kMaxStepsInFlight> steps_;  // in turn, by number
  int64_t done_ = 0;
  std::optional<double> own_rate_;
};

}  // namespace tessera
