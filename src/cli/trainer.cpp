#include "cli/trainer.h"

#include <fmt/format.h>

#include "cli/progress.h"

namespace tessera {
namespace {

Engine::Evaluation evaluate_now(Engine& engine, RunFolder* folder) {
  const Engine::Evaluation evaluation = engine.evaluate(engine.config().train.evaluate_batches);
  if (folder) folder->add_evaluation(engine.step_count(), evaluation.loss);
  return evaluation;
}

double speed_of(const std::vector<StepResult>& steps) {
  double tokens = 0, seconds = 0;
  for (size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i) {
    tokens += static_cast<double>(steps[i].tokens);
    seconds += steps[i].time.value();
  }
  return seconds > 0 ? tokens / seconds : 0;
}

}  // namespace

TrainedRun train_to_end(Engine& engine, RunFolder* folder, const std::function<bool()>& after_step) {
  const TrainConfig& train = engine.config().train;
  std::vector<StepResult> steps;
  TrainedRun run;
  {
    Progress progress(train.steps);
    while (engine.step_count() < train.steps && !run.stopped) {
      steps.push_back(engine.step());
      const StepResult& result = steps.back();
      run.losses.push_back(result.loss);
      progress.step(result.step + 1, result.loss, result.grad_norm, result.tokens);
      if (folder) folder->add_step(result);
      const bool is_last = result.step + 1 == train.steps;
      if (train.evaluate_every > 0 && (result.step + 1) % train.evaluate_every == 0 && !is_last)
        progress.note(fmt::format("step: {}  val_loss: {:.4f}", result.step + 1, evaluate_now(engine, folder).loss));
      run.stopped = after_step && !after_step();
    }
  }
  run.tokens_per_second = speed_of(steps);
  if (run.stopped) return run;
  const Engine::Evaluation evaluation = evaluate_now(engine, folder);
  run.held_out_loss = evaluation.loss;
  run.held_out_tokens = evaluation.tokens;
  return run;
}

}  // namespace tessera
