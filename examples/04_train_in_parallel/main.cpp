// Lesson 4: train serially, train on four ranks, get the same losses.
//
// The Engine joins everything: the model becomes a graph, backward and optimizer are derived, the
// plan's marks place it, and each rank runs its part as a thread. Placements do not change results:
// even the random numbers of dropout are those of the serial run.
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "training/engine/engine.h"

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
                  .dropout = 0.1};
  config.train = {.batch = 8, .steps = 40, .seed = 1};
  config.optimizer.schedule.peak = 0.01;
  return config;
}

/// Characters that follow a rule: every one is the sum of the two before it, modulo 8.
std::shared_ptr<const RunData> generated_text(int64_t context) {
  std::string text = "ab";
  while (text.size() < 4096)
    text += static_cast<char>('a' + (text.end()[-1] + text.end()[-2] + 6) % 8);
  RunData data;
  data.vocabulary = Vocabulary::characters_of("abcdefgh");
  data.train = std::make_shared<const TextDataset>(data.vocabulary.encode(text), context, 3);
  data.held_out = data.train;
  return std::make_shared<const RunData>(std::move(data));
}

}  // namespace

int main() try {
  const RunConfig config = small_gpt();
  const auto data = generated_text(config.model.context);

  // The batch is divided over dp, the heads of the attention and the wide layer of the feed-forward
  // over tp: the rest follows.
  Plan plan;
  plan.meshes =
      one_mesh(std::make_shared<const Mesh>(Shape{2, 2}, std::vector<std::string>{"dp", "tp"}));
  plan.marks = {shard_tensor("tokens", "P(\"dp\")"), shard_tensor("labels", "P(\"dp\")"),
                shard_tensor("blocks.*.attn.q.weight", "P(None, \"tp\")"),
                shard_tensor("blocks.*.ffn.up.weight", "P(None, \"tp\")")};

  Engine serial(config, serial_plan(), data);
  Engine parallel(config, plan, data);
  std::printf("step  serial  on %d ranks\n", parallel.runtime().ranks());
  bool agree = true;
  for (int64_t step = 0; step < config.train.steps; ++step) {
    const double a = serial.step().loss, b = parallel.step().loss;
    // Sums in another order round differently: a sum of n terms by about sqrt(n) 2^-24 of its size,
    // in every step so far. The longest sums here add 128 terms, the tokens of a batch; a factor of
    // four leaves a margin for worse signs.
    agree = agree &&
            std::abs(a - b) <= 4 * std::sqrt(128) * 0x1p-24 * static_cast<double>(step + 1) * a;
    if (step % 13 == 0) std::printf("%4d  %6.2f  %6.2f\n", static_cast<int>(step), a, b);
  }
  std::printf("%s\n", agree ? "the losses agree" : "the losses differ");
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.exit_code());
}
