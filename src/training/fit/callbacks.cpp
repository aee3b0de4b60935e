#include "training/fit/callbacks.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/error.h"

namespace tessera {

EarlyStop::EarlyStop(Options options)
    : options_(std::move(options)), best_loss_(std::numeric_limits<double>::infinity()) {
  if (options_.patience >= 1 && options_.min_delta >= 0) return;
  throw UserError(fmt::format("early stop with patience {} and min_delta {} is not possible",
                              options_.patience, options_.min_delta),
                  "it waits for at least one evaluation, and an improvement is a fall",
                  "give a patience of at least 1 and a min_delta of at least 0",
                  ExitCode::kBadConfig);
}

void EarlyStop::on_train_begin(const TrainingState&, TrainingControl& control) {
  best_loss_ = std::numeric_limits<double>::infinity();
  best_step_ = 0;
  without_improvement_ = 0;
  for (const HeldOutLoss& evaluation : options_.earlier) take(evaluation, control);
}

void EarlyStop::on_evaluate(const TrainingState& state, TrainingControl& control) {
  take({state.step, state.evaluation->loss}, control);
}

void EarlyStop::take(const HeldOutLoss& evaluation, TrainingControl& control) {
  if (evaluation.loss < best_loss_ - options_.min_delta) {
    best_loss_ = evaluation.loss;
    best_step_ = evaluation.step;
    without_improvement_ = 0;
    return;
  }
  if (++without_improvement_ < options_.patience) return;
  if (options_.min_delta > 0) {
    control.stop(
        fmt::format("the held-out loss has not fallen by more than {} below {:.4f} since step {}",
                    options_.min_delta, best_loss_, best_step_));
    return;
  }
  control.stop(fmt::format("the held-out loss has not fallen since step {}, where it was {:.4f}",
                           best_step_, best_loss_));
}

void PrintProgress::on_log(const TrainingState& state, TrainingControl&) {
  out_ << fmt::format("step: {}  loss: {:.4f}", state.step, state.result->loss);
  if (state.result->grad_norm > 0)
    out_ << fmt::format("  grad_norm: {:.4f}", state.result->grad_norm);
  out_ << "\n" << std::flush;
}

void PrintProgress::on_evaluate(const TrainingState& state, TrainingControl&) {
  out_ << fmt::format("step: {}  val_loss: {:.4f}", state.step, state.evaluation->loss);
  for (const MetricValue& metric : state.evaluation->metrics)
    if (metric.value) out_ << fmt::format("  val_{}: {:.4f}", metric.name, *metric.value);
  out_ << "\n" << std::flush;
}

}  // namespace tessera
