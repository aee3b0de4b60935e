#include <fmt/format.h>

#include <cmath>
#include <iostream>

#include "cli/commands.h"
#include "cli/print/text_table.h"
#include "cli/run/loaded_model.h"
#include "cli/run/session.h"

namespace tessera {

ExitCode run_eval(const Arguments& arguments, Processes& processes) {
  RealFileSystem disk;
  const Checkpoint checkpoint(disk, find_checkpoint(disk, arguments.file));
  StoredRun run = open_stored_run(checkpoint, arguments);
  const RunConfig& config = run.config;
  const auto data = std::make_shared<const RunData>(
      load_data(config.data, {.context = config.model.context, .vocabulary = run.vocabulary}));
  processes.check_plan(run.plan);
  Engine engine = load_model(checkpoint, run, data, processes.connect(arguments.rank_deadline));
  std::cerr << fmt::format("eval {}: step {}, {}\n", checkpoint.folder().string(),
                           checkpoint.step(), describe(engine.plan()));
  const Engine::Evaluation result = engine.evaluate(config.train.evaluate_batches);
  Document document;
  document["checkpoint"] = checkpoint.folder().string();
  document["step"] = checkpoint.step();
  document["loss"] = result.loss;
  document["perplexity"] = std::exp(result.loss);
  document["tokens"] = result.tokens;
  document["accuracy"] = result.accuracy;
  add_bar(document, *data);
  document["ranks"] = engine.plan().rank_count();
  const std::string text = fmt::format(
      "held out    {:.4f} nats per {} over {} {}s{}\nperplexity  {:.4f}, {:.1f}% of the {}s are "
      "the likeliest\n",
      result.loss, data->unit, grouped(result.tokens), data->unit, bar_text(*data),
      std::exp(result.loss), 100 * result.accuracy, data->unit);
  print_result(arguments, document, text);
  return ExitCode::kDone;
}

}  // namespace tessera
