#include <fmt/format.h>

#include <iostream>
#include <optional>

#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/run_folder.h"
#include "cli/session.h"
#include "cli/text_table.h"
#include "cli/trainer.h"

namespace tessera {
namespace {

Document result_document(const TrainedRun& run, Engine& engine) {
  Document document;
  document["steps"] = static_cast<int64_t>(run.losses.size());
  document["loss"] = run.losses.empty() ? Document() : Document(run.losses.back());
  document["losses"] = to_document(run.losses);
  document["val_loss"] = run.held_out_loss;
  document["tokens_per_s"] = run.tokens_per_second;
  document["peak_bytes"] = engine.runtime().peak_bytes().value();
  document["ranks"] = engine.plan().ranks();
  document["plan"] = to_document(engine.plan(), engine.graph());
  return document;
}

std::string result_text(const TrainedRun& run, Engine& engine, const TextData& data, const std::string& out) {
  std::string text =
      fmt::format("trained    {} under {}\n", counted(static_cast<int64_t>(run.losses.size()), "step"), describe(engine.plan()));
  if (!run.losses.empty())
    text += fmt::format("loss       {:.4f} at the first step, {:.4f} at the last\n", run.losses.front(), run.losses.back());
  text += fmt::format("held out   {:.4f} nats a token over {} tokens; the bigram entropy of all {} held-out tokens is {:.4f}\n",
                      run.held_out_loss, grouped(run.held_out_tokens), grouped(data.held_out_tokens), data.bigram_entropy);
  text += fmt::format("speed      {} tok/s, {} tok/s/dev\n", grouped(std::llround(run.tokens_per_second)),
                      grouped(std::llround(run.tokens_per_second / engine.plan().ranks())));
  text += fmt::format("memory     {} at the peak of a rank\n", to_text(engine.runtime().peak_bytes()));
  if (!out.empty()) text += fmt::format("written    {0}/plan.json, {0}/config.json, {0}/metrics.jsonl\n", out);
  return text;
}

}  // namespace

ExitCode run_train(const Arguments& arguments) {
  Session session = open_session(arguments);
  const auto data = load_text_of(session.config);
  Engine engine(session.config, session.plan, data);
  std::cerr << fmt::format("train {}: {} tokens, {}\n", arguments.file, grouped(data->train_tokens), describe(engine.plan()));
  std::optional<RunFolder> folder;
  if (!arguments.out.empty()) folder.emplace(arguments.out, engine);
  const TrainedRun run = train_to_end(engine, folder ? &*folder : nullptr);
  print_result(arguments, result_document(run, engine), result_text(run, engine, *data, arguments.out));
  return ExitCode::kDone;
}

}  // namespace tessera
