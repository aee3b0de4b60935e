#include "training/engine/internal/steps/training_steps.h"

#include <utility>

#include "training/engine/internal/steps/step_checks.h"

namespace tessera {

void TrainingSteps::begin(const Batch& batch, const Observer* observer) {
  check_rows(programs_.batch_fields(), batch);
  const int64_t number = next();
  InFlightStep& begun = step(number);
  begun.inputs.set(programs_.main().tasks.inputs, batch, state_.rate(number),
                   static_cast<int32_t>(number));
  programs_.runtime().begin_step(programs_.get(Purpose::kTrain), begun.inputs.by_name(),
                                 begun.results, observer);
}

void TrainingSteps::begin(BatchSource::Taken taken, const Observer* observer) {
  InFlightStep& begun = step(next());
  begun.data_wait = taken.wait;
  begin(begun.batch.emplace(std::move(taken.batch)), observer);
}

StepResult TrainingSteps::end() {
  const Seconds time = programs_.runtime().end_step();
  const int64_t number = state_.steps_done();
  InFlightStep& ended = step(number);
  const StepResult result{.step = number,
                          .loss = ended.result(programs_.network().loss),
                          .learning_rate = ended.inputs.rate(),
                          .grad_norm = ended.result("grad_norm"),
                          .loss_scale = ended.result("loss_scale"),
                          .skipped = ended.result("skipped") != 0,
                          .tokens = programs_.units_per_batch(),
                          .time = time,
                          .data_wait = ended.data_wait,
                          .ranks = programs_.runtime().mean_rank_time()};
  state_.set_steps_done(number + 1);
  if (ended.batch) state_.batches().recycle(std::move(*ended.batch));
  ended.batch.reset();
  // A loss that overflows is scaled down, too, until there is no smaller scale.
  if (!result.skipped || result.loss_scale <= kMinLossScale)
    check_is_a_number(result.loss, result.step + 1);
  return result;
}

}  // namespace tessera
