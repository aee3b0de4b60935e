#include "training/engine/internal/steps/gradient_accumulation.h"

#include "base/threads/stopwatch.h"
#include "training/engine/internal/steps/step_checks.h"

namespace tessera {
namespace {

/// The number that seeds dropout of batch `index` of a step. It is the step's own number for the
/// first batch, and another number for each further one (of 256 batches in 2^24 steps).
int32_t dropout_number(int64_t step, int64_t index) {
  return static_cast<int32_t>((step + (index << 24)) & 0xffffffff);
}

}  // namespace

double GradientAccumulation::accumulate(const Batch& batch, int64_t step, double rate,
                                        Seconds data_wait) {
  const Stopwatch stopwatch;
  if (!parts_) parts_ = std::make_unique<AccumulationPrograms>(programs_);
  check_rows(programs_.batch_fields(), batch);
  inputs_.set(programs_.main().tasks.inputs, batch, rate, dropout_number(step, count_));
  const double loss = parts_->accumulate(inputs_.by_name());
  check_is_a_number(loss, step + 1);
  if (count_ == 0) pending_ = {};
  pending_.loss += loss;
  pending_.tokens += programs_.units_per_batch();
  pending_.data_wait += data_wait;
  pending_.time += stopwatch.elapsed();
  ++count_;
  is_reduced_ = false;
  return loss;
}

void GradientAccumulation::reduce() {
  check_is_accumulated(count_, "all_reduce_gradients()");
  if (is_reduced_) return;
  const Stopwatch stopwatch;
  parts_->reduce();
  is_reduced_ = true;
  pending_.time += stopwatch.elapsed();
}

StepResult GradientAccumulation::apply(int64_t step, double rate) {
  check_is_accumulated(count_, "apply_gradients()");
  reduce();
  const Stopwatch stopwatch;
  StepResult result = pending_;
  const double share = 1.0 / static_cast<double>(count_);
  result.step = step;
  result.loss *= share;
  result.learning_rate = static_cast<float>(rate);  // in the precision of the ranks
  result.grad_norm = parts_->apply(share, result.learning_rate, step);
  result.time += stopwatch.elapsed();
  count_ = 0;
  return result;
}

void GradientAccumulation::drop() {
  if (count_ > 0) parts_->drop();
  count_ = 0;
  is_reduced_ = true;
}

}  // namespace tessera
