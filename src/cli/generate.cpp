#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/run/loaded_model.h"
#include "cli/run/session.h"

namespace tessera {
namespace {

/// Only what the model needs to read and write: no text to train on.
std::shared_ptr<const RunData> vocabulary_only(const StoredRun& run) {
  auto data = std::make_shared<RunData>();
  data->vocabulary = run.vocabulary.value_or(Vocabulary::bytes());
  return data;
}

void check_is_of_text(const StoredRun& run) {
  if (run.config.data.kind == "text" && objective_of(run.config.model) == Objective::kNextToken)
    return;
  throw UserError("this model writes no text",
                  "it is of kind " + run.config.model.kind + " and was trained on data of kind " +
                      run.config.data.kind,
                  "use a model that was trained on text to predict the next token",
                  ExitCode::kUsage);
}

}  // namespace

ExitCode run_generate(const Arguments& arguments, Processes& processes) {
  check(arguments.sampling);
  RealFileSystem disk;
  const Checkpoint checkpoint(disk, find_checkpoint(disk, arguments.file));
  StoredRun run = open_stored_run(checkpoint, arguments);
  check_is_of_text(run);
  const auto data = vocabulary_only(run);
  const std::vector<int32_t> prompt = data->vocabulary.encode(arguments.prompt);
  processes.check_plan(run.plan);
  Engine engine = load_model(checkpoint, run, data, processes.connect(arguments.rank_deadline));
  std::cerr << fmt::format("generate {}: step {}, {}\n", checkpoint.folder().string(),
                           checkpoint.step(), describe(engine.plan()));
  const std::vector<int32_t> tokens =
      engine.generate(prompt, arguments.tokens.value_or(100), arguments.sampling);
  const std::string text = data->vocabulary.decode(tokens);
  Document document;
  document["checkpoint"] = checkpoint.folder().string();
  document["step"] = checkpoint.step();
  document["prompt"] = arguments.prompt;
  document["text"] = text;
  document["tokens"] = Document::List(tokens.begin(), tokens.end());
  document["ranks"] = engine.plan().rank_count();
  print_result(arguments, document, arguments.prompt + text + "\n");
  return ExitCode::kDone;
}

}  // namespace tessera
