// Lesson 6: callbacks that watch a run and end it, and a custom training loop.
#include <cstdio>

#include "base/error.h"
#include "training/fit/fit.h"

using namespace tessera;
namespace {

RunConfig small_gpt() {
  RunConfig config;
  config.model = {.kind = "gpt",
                  .vocabulary = 8,
                  .context = 16,
                  .layers = 1,
                  .width = 32,
                  .heads = 4,
                  .dropout = 0};
  config.train = {.batch = 8, .steps = 60, .seed = 1};
  config.optimizer.schedule.peak = 0.01;
  return config;
}

/// Characters that follow a rule: every one is the sum of the two before it, modulo 8.
std::shared_ptr<const RunData> generated_text(int64_t context) {
  std::string text = "ab";
  while (text.size() < 4096)
    text += static_cast<char>('a' + (text.end()[-1] + text.end()[-2] + 6) % 8);
  RunData data{.vocabulary = Vocabulary::characters_of("abcdefgh"), .train = {}, .held_out = {}};
  data.train = std::make_shared<const TextDataset>(data.vocabulary.encode(text), context, 3);
  data.held_out = data.train;
  return std::make_shared<const RunData>(std::move(data));
}

/// Prints evaluations, and ends the run when the model has learned the rule.
class UntilLearned : public Callback {
 public:
  void on_evaluate(const TrainingState& state, TrainingControl& control) override {
    std::printf("step %d: held-out loss %.1f\n", int(state.step), state.evaluation->loss);
    if (state.evaluation->metric("accuracy") > 0.75) control.stop("it has learned the rule");
  }
};

}  // namespace

int main() try {
  const auto data = generated_text(16);
  Plan plan;  // data parallel on two ranks
  plan.meshes = one_mesh(std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"dp"}));
  plan.marks = {shard_tensor("{tokens,labels}", "P(\"dp\")")};

  Engine engine(small_gpt(), plan, data);
  UntilLearned until_learned;
  EarlyStop early({.patience = 3});
  const FitResult result =
      fit(engine, {.steps = 60, .callbacks = {&until_learned, &early}, .evaluate_every = 10});
  std::printf("stopped after %d steps: %s\n", int(result.steps.size()), result.stop_reason.c_str());

  // A custom loop: each step has two batches, whose gradients stay on the ranks that produced them
  // until they are reduced together.
  Engine own(small_gpt(), plan, data);
  own.prepare();
  for (const Batch& batch : own.dataloader(40)) {
    own.accumulate(batch);
    if (own.accumulated() < 2) continue;
    own.all_reduce_gradients();
    const StepResult step = own.apply_gradients();
    if (own.step_count() % 20 == 0)
      std::printf("step %d: loss %.1f, %d tokens\n", int(own.step_count()), step.loss,
                  int(step.tokens));
  }
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.exit_code());
}
