#include <fmt/format.h>

#include <iostream>
#include <optional>

#include "cli/commands.h"
#include "cli/print/progress.h"
#include "cli/print/text_table.h"
#include "cli/run/run_checkpoints.h"
#include "cli/run/run_folder.h"
#include "cli/run/session.h"
#include "cli/run/trainer.h"
#include "launch/stop_signals.h"

namespace tessera {
namespace {

/// A run of the command and what surrounds it.
struct Training {
  Engine& engine;
  const RunData& data;
  TrainedRun run;
  std::optional<int64_t> resumed_from;  // step
  std::filesystem::path checkpoint;     // the last one; "": none
  std::string trace;                    // what was traced into which file; "": nothing
};

Document optional_text(const std::string& text) {
  return text.empty() ? Document() : Document(text);
}

Document result_document(const Arguments& arguments, const Training& training) {
  const TrainedRun& run = training.run;
  Engine& engine = training.engine;
  Document document;
  const std::vector<double> losses = run.losses();
  document["steps"] = static_cast<int64_t>(losses.size());
  document["loss"] = losses.empty() ? Document() : Document(losses.back());
  document["losses"] = to_document(losses);
  for (const Metric& metric : metrics())
    document["val_" + std::string(metric.name)] =
        run.held_out ? Document(metric.of(*run.held_out)) : Document();
  if (run.held_out && run.held_out->intersection_over_union)
    document["val_intersection_over_union"] = *run.held_out->intersection_over_union;
  add_bar(document, training.data);
  document["tokens_per_s"] = run.tokens_per_second;
  document["peak_bytes"] = engine.runtime().peak_bytes().value();
  document["ranks"] = engine.plan().rank_count();
  document["step"] = engine.step_count();
  document["resumed_from"] = training.resumed_from ? Document(*training.resumed_from) : Document();
  document["checkpoint"] = optional_text(training.checkpoint.string());
  document["trace"] = optional_text(arguments.trace);
  document["stopped_by"] = optional_text(training.run.stopped_by.value_or(""));
  document["plan"] = to_document(engine.plan(), engine.graph());
  return document;
}

std::string held_out_text(const Training& training) {
  if (training.run.stopped_by)
    return fmt::format("stopped    by {} after step {}\n", *training.run.stopped_by,
                       training.engine.step_count());
  const Evaluation& held_out = *training.run.held_out;
  const std::string& unit = training.data.unit;
  std::string text = fmt::format(
      "held out   {:.4f} nats per {} over {} {}s{}\n           perplexity {:.2f}, ", held_out.loss,
      unit, grouped(held_out.tokens), unit, bar_text(training.data), perplexity(held_out));
  if (held_out.bytes > 0) text += fmt::format("{:.3f} bits a byte, ", bits_per_byte(held_out));
  if (held_out.intersection_over_union)
    text += fmt::format("intersection over union {:.3f}, ", *held_out.intersection_over_union);
  return text +
         fmt::format("{:.1f}% of the {}s are the likeliest\n", 100 * held_out.accuracy, unit);
}

std::string written_text(const Arguments& arguments, const Training& training) {
  if (arguments.out.empty()) return "";
  std::string text = fmt::format(
      "written    {0}/plan.json, config.json, metrics.jsonl, logs/rank-*.jsonl, "
      "events.out.tfevents.*\n           {1}\n",
      arguments.out, training.checkpoint.string());
  if (training.run.stopped_by)
    text += fmt::format("go on      tessera train {} --out {} --resume\n", arguments.file,
                        arguments.out);
  return text;
}

std::string result_text(const Arguments& arguments, const Training& training) {
  const TrainedRun& run = training.run;
  const Plan& plan = training.engine.plan();
  const auto& steps = run.fit.steps;
  std::string text =
      fmt::format("trained    {} under {}\n", counted(static_cast<int64_t>(steps.size()), "step"),
                  describe(plan));
  if (!steps.empty())
    text += fmt::format("loss       {:.4f} at the first step, {:.4f} at the last\n",
                        steps.front().loss, steps.back().loss);
  text += held_out_text(training);
  text += fmt::format("speed      {} tok/s, {} tok/s/dev\n",
                      grouped(std::llround(run.tokens_per_second)),
                      grouped(std::llround(run.tokens_per_second / plan.rank_count())));
  text += fmt::format("memory     {} at the peak of a rank\n",
                      to_text(training.engine.runtime().peak_bytes()));
  if (!training.trace.empty()) text += "trace      " + training.trace + "\n";
  return text + written_text(arguments, training);
}

/// The checkpoint that a run goes on from, open.
std::unique_ptr<Checkpoint> open_resumed(FileSystem& disk, const Arguments& arguments) {
  const auto path = checkpoint_to_resume(disk, arguments);
  return path ? std::make_unique<Checkpoint>(disk, *path) : nullptr;
}

/// Of several processes each writes what its own ranks do.
std::filesystem::path trace_path(const std::string& wanted, const Engine& engine) {
  if (engine.runtime().speaks()) return wanted;
  return fmt::format("{}.rank-{:05}", wanted, engine.runtime().local_ranks().front());
}

void resume(Engine& engine, const Checkpoint& checkpoint) {
  restore(engine, checkpoint);
  std::cerr << fmt::format("resume {}: step {}\n", checkpoint.folder().string(), checkpoint.step())
            << changed_settings(*checkpoint.state().find("settings"),
                                resolved_settings(engine.config()));
}

}  // namespace

ExitCode run_train(const Arguments& arguments, Processes& processes) {
  // Without a folder there is nothing to save, and signals end the run as they end any program; but
  // of several processes each first says what ended them.
  std::optional<StopSignals> signals;
  if (!arguments.out.empty() || processes.are_several()) signals.emplace();
  RealFileSystem disk;
  const auto resumed = open_resumed(disk, arguments);
  Session session =
      open_session(arguments, resumed ? std::optional(stored_run(*resumed).plan) : std::nullopt);
  const auto data = load_data_of(session.config);
  processes.check_plan(session.plan);
  Engine engine(session.config, session.plan, data,
                {.runtime = processes.connect(arguments.rank_deadline), .draw = !resumed});
  std::cerr << fmt::format("train {}: {} {}s, {}\n", arguments.file, grouped(data->train_units),
                           data->unit, describe(engine.plan()));
  if (resumed) resume(engine, *resumed);
  std::optional<RunFolder> folder;
  std::optional<RunCheckpoints> checkpoints;
  if (!arguments.out.empty()) {
    folder.emplace(arguments.out, engine);
    checkpoints.emplace(disk, arguments.out, engine);
  }
  Training training{engine, *data, {}, resumed ? std::optional(resumed->step()) : std::nullopt,
                    {},     {}};
  std::optional<TraceFile> trace;
  if (!arguments.trace.empty())
    trace.emplace(engine, trace_path(arguments.trace, engine), arguments.trace_steps);
  training.run = train_to_end(engine, {.folder = folder ? &*folder : nullptr,
                                       .checkpoints = checkpoints ? &*checkpoints : nullptr,
                                       .signals = arguments.out.empty() ? nullptr : &*signals,
                                       .trace = trace ? &*trace : nullptr,
                                       .check_replicas = arguments.check_replicas});
  if (trace) training.trace = trace->summary();
  if (checkpoints) training.checkpoint = checkpoints->last();
  print_result(arguments, result_document(arguments, training), result_text(arguments, training));
  return training.run.stopped_by ? ExitCode::kPreempted : ExitCode::kDone;
}

}  // namespace tessera
