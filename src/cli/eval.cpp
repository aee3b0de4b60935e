#include <fmt/format.h>

#include <cmath>
#include <iostream>

#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "cli/session.h"
#include "cli/text_table.h"

namespace tessera {

ExitCode run_eval(const Arguments& arguments) {
  RealFileSystem disk;
  const Checkpoint checkpoint(disk, find_checkpoint(disk, arguments.file));
  StoredRun run = open_stored_run(checkpoint, arguments);
  const RunConfig& config = run.config;
  const auto data = std::make_shared<const TextData>(load_text(config.data, config.model.context, run.vocabulary));
  Engine engine = load_model(checkpoint, run, data);
  std::cerr << fmt::format("eval {}: step {}, {}\n", checkpoint.folder().string(), checkpoint.step(), describe(engine.plan()));
  const Engine::Evaluation result = engine.evaluate(config.train.evaluate_batches);
  Document document;
  document["checkpoint"] = checkpoint.folder().string();
  document["step"] = checkpoint.step();
  document["loss"] = result.loss;
  document["perplexity"] = std::exp(result.loss);
  document["tokens"] = result.tokens;
  document["bigram_entropy"] = data->bigram_entropy;
  document["ranks"] = engine.plan().ranks();
  const std::string text = fmt::format(
      "held out    {:.4f} nats a token over {} tokens; the bigram entropy of all {} held-out tokens is {:.4f}\nperplexity  {:.4f}\n",
      result.loss, grouped(result.tokens), grouped(data->held_out_tokens), data->bigram_entropy, std::exp(result.loss));
  print_result(arguments, document, text);
  return ExitCode::kDone;
}

}  // namespace tessera
