// Manual gradient accumulation: gradients are accumulated over several batches before they are
// applied.
#pragma once

#include <memory>

#include "training/engine/internal/programs/program_set.h"
#include "training/engine/internal/steps/accumulation_programs.h"
#include "training/engine/internal/steps/in_flight_step.h"
#include "training/engine/internal/steps/training_steps.h"

namespace tessera {

/// The gradients that were accumulated and not yet applied. Their programs are compiled by the
/// first accumulate().
class GradientAccumulation {
 public:
  /// `programs` outlives it; its main program is training.
  explicit GradientAccumulation(ProgramSet& programs) : programs_(programs) {}

  /// The number of batches that were accumulated since the last apply().
  int64_t count() const { return count_; }
  /// Does Engine::accumulate for the step with this number and rate.
  double accumulate(const Batch& batch, int64_t step, double rate, Seconds data_wait);
  /// Does Engine::all_reduce_gradients.
  void reduce();
  /// Does Engine::apply_gradients.
  StepResult apply(int64_t step, double rate);
  /// Drops the accumulated gradients.
  void drop();

 private:
  ProgramSet& programs_;
  std::unique_ptr<AccumulationPrograms> parts_;
  StepInputs inputs_;
  StepResult pending_;  // sums over the batches
  int64_t count_ = 0;
  bool is_reduced_ = true;  // has everything accumulated been reduced?
};

}  // namespace tessera
