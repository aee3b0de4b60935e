#include <fmt/format.h>

#include <iostream>
#include <optional>

#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/run_checkpoints.h"
#include "cli/run_folder.h"
#include "cli/session.h"
#include "cli/stop_signals.h"
#include "cli/text_table.h"
#include "cli/trainer.h"

namespace tessera {
namespace {

/// A run of the command and what surrounds it.
struct Training {
  Engine& engine;
  const TextData& data;
  TrainedRun run;
  std::optional<int64_t> resumed_from;    // step
  std::filesystem::path checkpoint;       // the last one; "": none
  std::optional<std::string> stopped_by;  // a signal
};

Document optional_text(const std::string& text) {
  return text.empty() ? Document() : Document(text);
}

Document result_document(const Training& training) {
  const TrainedRun& run = training.run;
  Engine& engine = training.engine;
  Document document;
  document["steps"] = static_cast<int64_t>(run.losses.size());
  document["loss"] = run.losses.empty() ? Document() : Document(run.losses.back());
  document["losses"] = to_document(run.losses);
  document["val_loss"] = run.stopped ? Document() : Document(run.held_out_loss);
  document["tokens_per_s"] = run.tokens_per_second;
  document["peak_bytes"] = engine.runtime().peak_bytes().value();
  document["ranks"] = engine.plan().ranks();
  document["step"] = engine.step_count();
  document["resumed_from"] = training.resumed_from ? Document(*training.resumed_from) : Document();
  document["checkpoint"] = optional_text(training.checkpoint.string());
  document["stopped_by"] = optional_text(training.stopped_by.value_or(""));
  document["plan"] = to_document(engine.plan(), engine.graph());
  return document;
}

std::string held_out_text(const Training& training) {
  if (training.stopped_by) return fmt::format("stopped    by {} after step {}\n", *training.stopped_by, training.engine.step_count());
  return fmt::format("held out   {:.4f} nats a token over {} tokens; the bigram entropy of all {} held-out tokens is {:.4f}\n",
                     training.run.held_out_loss, grouped(training.run.held_out_tokens), grouped(training.data.held_out_tokens),
                     training.data.bigram_entropy);
}

std::string written_text(const Arguments& arguments, const Training& training) {
  if (arguments.out.empty()) return "";
  std::string text =
      fmt::format("written    {0}/plan.json, {0}/config.json, {0}/metrics.jsonl, {1}\n", arguments.out, training.checkpoint.string());
  if (training.stopped_by) text += fmt::format("go on      tessera train {} --out {} --resume\n", arguments.file, arguments.out);
  return text;
}

std::string result_text(const Arguments& arguments, const Training& training) {
  const TrainedRun& run = training.run;
  const Plan& plan = training.engine.plan();
  std::string text = fmt::format("trained    {} under {}\n", counted(static_cast<int64_t>(run.losses.size()), "step"), describe(plan));
  if (!run.losses.empty())
    text += fmt::format("loss       {:.4f} at the first step, {:.4f} at the last\n", run.losses.front(), run.losses.back());
  text += held_out_text(training);
  text += fmt::format("speed      {} tok/s, {} tok/s/dev\n", grouped(std::llround(run.tokens_per_second)),
                      grouped(std::llround(run.tokens_per_second / plan.ranks())));
  text += fmt::format("memory     {} at the peak of a rank\n", to_text(training.engine.runtime().peak_bytes()));
  return text + written_text(arguments, training);
}

/// The checkpoint that a run goes on from, open.
std::unique_ptr<Checkpoint> open_resumed(FileSystem& disk, const Arguments& arguments) {
  const auto path = checkpoint_to_resume(disk, arguments);
  return path ? std::make_unique<Checkpoint>(disk, *path) : nullptr;
}

void resume(Engine& engine, const Checkpoint& checkpoint) {
  restore(engine, checkpoint);
  std::cerr << fmt::format("resume {}: step {}\n", checkpoint.folder().string(), checkpoint.step())
            << changed_settings(*checkpoint.state().find("settings"), resolved_settings(engine.config()));
}

}  // namespace

ExitCode run_train(const Arguments& arguments) {
  std::optional<StopSignals> signals;  // without a folder there is nothing to save, and signals end the run as they end any program
  if (!arguments.out.empty()) signals.emplace();
  RealFileSystem disk;
  const auto resumed = open_resumed(disk, arguments);
  Session session = open_session(arguments, resumed ? std::optional(stored_run(*resumed).plan) : std::nullopt);
  const auto data = load_text_of(session.config);
  Engine engine(session.config, session.plan, data, {.runtime = {}, .draw = !resumed});
  std::cerr << fmt::format("train {}: {} tokens, {}\n", arguments.file, grouped(data->train_tokens), describe(engine.plan()));
  if (resumed) resume(engine, *resumed);
  std::optional<RunFolder> folder;
  std::optional<RunCheckpoints> checkpoints;
  if (!arguments.out.empty()) {
    folder.emplace(arguments.out, engine);
    checkpoints.emplace(disk, arguments.out, engine);
  }
  Training training{engine, *data, {}, resumed ? std::optional(resumed->step()) : std::nullopt, {}, {}};
  training.run = train_to_end(engine, folder ? &*folder : nullptr, [&] {
    if (!checkpoints) return true;
    training.stopped_by = signals->received();
    if (!training.stopped_by) checkpoints->save_when_due();
    return !training.stopped_by;
  });
  if (checkpoints) {
    checkpoints->save();
    training.checkpoint = checkpoints->last();
  }
  print_result(arguments, result_document(training), result_text(arguments, training));
  return training.stopped_by ? ExitCode::kPreempted : ExitCode::kDone;
}

}  // namespace tessera
