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
  const std::vector<double> losses = run.losses();
  document["steps"] = static_cast<int64_t>(losses.size());
  document["loss"] = losses.empty() ? Document() : Document(losses.back());
  document["losses"] = to_document(losses);
  for (const Metric& metric : metrics()) document["val_" + std::string(metric.name)] = metric.of(run.held_out);
  document["tokens_per_s"] = run.tokens_per_second;
  document["peak_bytes"] = engine.runtime().peak_bytes().value();
  document["ranks"] = engine.plan().ranks();
  document["plan"] = to_document(engine.plan(), engine.graph());
  return document;
}

std::string result_text(const TrainedRun& run, Engine& engine, const TextData& data, const std::string& out) {
  const auto& steps = run.fit.steps;
  std::string text = fmt::format("trained    {} under {}\n", counted(static_cast<int64_t>(steps.size()), "step"), describe(engine.plan()));
  if (!steps.empty())
    text += fmt::format("loss       {:.4f} at the first step, {:.4f} at the last\n", steps.front().loss, steps.back().loss);
  text += fmt::format("held out   {:.4f} nats a token over {} tokens; the bigram entropy of all {} held-out tokens is {:.4f}\n",
                      run.held_out.loss, grouped(run.held_out.tokens), grouped(data.held_out_tokens), data.bigram_entropy);
  text += fmt::format("           perplexity {:.2f}, {:.3f} bits a byte, {:.1f}% of the tokens are the likeliest\n",
                      perplexity(run.held_out), bits_per_byte(run.held_out), 100 * run.held_out.accuracy);
  text += fmt::format("speed      {} tok/s, {} tok/s/dev\n", grouped(std::llround(run.tokens_per_second)),
                      grouped(std::llround(run.tokens_per_second / engine.plan().ranks())));
  text += fmt::format("memory     {} at the peak of a rank\n", to_text(engine.runtime().peak_bytes()));
  if (!out.empty())
    text += fmt::format("written    {0}/plan.json, config.json, metrics.jsonl, logs/rank-*.jsonl, events.out.tfevents.*\n", out);
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
