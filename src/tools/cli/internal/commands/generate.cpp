#include "tools/cli/internal/commands/generate.h"

#include <fmt/format.h>

#include "base/error.h"
#include "tools/cli/internal/print/plan/notes.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/run/loaded_model.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {
namespace {

/// Only the data that the model needs to read and write text, without a text to train on.
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

void GenerateCommand::describe(OptionParser& parser) {
  add_options(parser, checkpoint);
  add_options(parser, liveness);
  parser.required_text({"--prompt", "TEXT", "The text to continue"}, prompt);
  parser.number({"--tokens", "N", "Tokens to sample; default: 100"}, tokens, int64_t{0});
  parser.real(
      {"--temperature", "X", "Divides the logits; 0: always the most probable token; default: 1"},
      sampling.temperature, 0);
  parser.number({"--top-k", "N", "Samples from the N most probable tokens; 0, the default: all"},
                sampling.top_k, int64_t{0});
  parser.real({"--top-p", "X",
               "Samples from the fewest most probable tokens whose probabilities sum to X; "
               "default: 1, all"},
              sampling.top_p, 0);
  parser.number({"--seed", "N", "Seed of the random numbers; default: 1"}, sampling.seed,
                uint64_t{0});
  parser.flag({"--no-cache", "",
               "Read the whole text again for each token, instead of caching keys and values"},
              no_cache);
  parser.check([this] { sampling.cache = !no_cache; });
  add_options(parser, output);
}

int GenerateCommand::rank_count() const {
  return stored_rank_count(checkpoint);
}

ExitCode GenerateCommand::run(Processes& processes) {
  check(sampling);
  RealFileSystem disk;
  const Checkpoint stored(disk, find_checkpoint(disk, checkpoint.path));
  if (processes.are_several()) checkpoint.plan.processes = processes.count();
  StoredRun run = open_stored_run(stored, checkpoint);
  check_is_of_text(run);
  const auto data = vocabulary_only(run);
  const std::vector<int32_t> prompt_tokens = data->vocabulary.encode(prompt);
  processes.check_plan(run.plan);
  Engine engine = load_model(stored, run, data, processes.connect(liveness.deadline()));
  tell(fmt::format("generate {}: step {}, {}\n", stored.folder().string(), stored.step(),
                   plan_summary(engine.plan())) +
       notes_summary(notes_for_user(engine)));
  const std::vector<int32_t> sampled = engine.text().generate(prompt_tokens, tokens, sampling);
  const std::string text = data->vocabulary.decode(sampled);
  Document document;
  document["checkpoint"] = stored.folder().string();
  document["step"] = stored.step();
  document["prompt"] = prompt;
  document["text"] = text;
  document["tokens"] = Document::List(sampled.begin(), sampled.end());
  document["ranks"] = engine.plan().rank_count();
  if (output.json)
    print_result(output, document, "");
  else
    print_bytes(prompt + text + "\n");
  return ExitCode::kDone;
}

}  // namespace tessera
