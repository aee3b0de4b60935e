#include "tools/cli/internal/commands/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/shell_quote.h"
#include "base/text/text.h"
#include "frontend/models/parameters.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/plan/notes.h"
#include "tools/cli/internal/print/predicted_and_measured.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/print/progress.h"
#include "tools/cli/internal/run/automatic_plan.h"
#include "tools/cli/internal/run/metrics_file.h"
#include "tools/cli/internal/run/output_files.h"
#include "tools/cli/internal/run/run_checkpoints.h"
#include "tools/cli/internal/run/run_folder.h"
#include "tools/cli/internal/run/run_lock.h"
#include "tools/cli/internal/run/session.h"
#include "tools/cli/internal/run/trainer.h"
#include "tools/cli/internal/standard_streams.h"
#include "tools/launch/stop_signals.h"

namespace tessera {
namespace {

constexpr int64_t kTraceSteps = 3;

/// A run of the command with its services.
struct Training {
  Engine& engine;
  const RunData& data;
  TrainedRun run;
  std::optional<int64_t> resumed_from;    // step
  std::filesystem::path checkpoint = {};  // the last one; "": none
  const std::optional<PredictedRun>& predicted;
  std::string trace = {};  // names the traced steps and the file; "": nothing was traced
};

Document optional_text(const std::string& text) {
  return text.empty() ? Document() : Document(text);
}

MeasuredRun measured_of(const Training& training) {
  MeasuredRun measured{Seconds(0), training.engine.runtime().peak_bytes()};
  std::vector<Seconds> times;
  for (const StepResult& step : training.run.fit.steps) times.push_back(step.time);
  measured.step = usual_step(times);
  return measured;
}

/// The prediction, where the command line gives a cluster; only on the leader, which prints it.
std::optional<PredictedRun> prediction_of(const TrainCommand& command, Engine& engine,
                                          bool evaluates) {
  std::optional<PredictedRun> predicted;
  const std::optional<std::string>& cluster = command.config.automatic.cluster;
  if (!cluster) return predicted;
  engine.runtime().on_all_processes([&] {
    if (engine.runtime().is_leader())
      predicted = predict_run({engine.network(), engine.config(), engine.graph(), evaluates},
                              engine.plan(), engine.compiled(), named_cluster(*cluster));
  });
  return predicted;
}

Document result_document(const TrainCommand& command, const Training& training) {
  const TrainedRun& run = training.run;
  Engine& engine = training.engine;
  Document document;
  const std::vector<double> losses = run.losses();
  document["steps"] = std::ssize(losses);
  document["loss"] = losses.empty() ? Document() : Document(losses.back());
  document["losses"] = to_document(losses);
  add_evaluation(document, run.held_out, engine.network(), training.data);
  add_bar(document, training.data);
  document["left_out_bytes"] = training.data.left_out_bytes;
  document[training.data.unit + "s_per_s"] =
      losses.empty() ? Document() : Document(run.tokens_per_second);
  document["peak_bytes"] = engine.runtime().peak_bytes().value();
  if (training.predicted)
    document["predicted"] = comparison_document(*training.predicted, measured_of(training));
  document["ranks"] = engine.plan().rank_count();
  document["step"] = engine.step_count();
  document["resumed_from"] = training.resumed_from ? Document(*training.resumed_from) : Document();
  document["checkpoint"] = optional_text(training.checkpoint.string());
  document["trace"] = optional_text(command.trace);
  document["stopped_by"] = optional_text(training.run.stopped_by.value_or(""));
  document["stop_reason"] = optional_text(training.run.fit.stop_reason);
  document["plan"] =
      to_document(engine.plan(), engine.graph(), rewritten_fingerprint(engine.compiled()));
  document["notes"] = to_document(notes_for_user(engine));
  return document;
}

std::string validation_text(const Training& training) {
  if (training.run.stopped_by)
    return fmt::format("stopped          by {} after step {}\n", *training.run.stopped_by,
                       training.engine.step_count());
  if (!training.run.held_out) return "validation loss  none: data.held_out is 0\n";
  return "validation loss  " + evaluation_text(*training.run.held_out, training.data);
}

std::string written_text(const TrainCommand& command, const Training& training) {
  if (command.out.empty()) return "";
  std::string text = fmt::format(
      "written          {0}/plan.json, config.json, metrics.jsonl, logs/rank-*.jsonl, "
      "events.out.tfevents.*\n                 {1}\n",
      command.out, training.checkpoint.string());
  if (training.run.stopped_by) {
    const char* const launch = std::getenv(kLaunchVariable);
    text += fmt::format("to continue      tessera {}{}\n", launch ? launch + std::string(" ") : "",
                        continue_command(command.words));
  }
  return text;
}

std::string result_text(const TrainCommand& command, const Training& training) {
  const TrainedRun& run = training.run;
  const Plan& plan = training.engine.plan();
  const auto& steps = run.fit.steps;
  std::string text = fmt::format("trained          {} under {}\n",
                                 counted(std::ssize(steps), "step"), plan_summary(plan));
  if (!steps.empty())
    text += fmt::format("loss             {:.4f} at the first step, {:.4f} at the last\n",
                        steps.front().loss, steps.back().loss);
  if (!run.stopped_by && !run.fit.stop_reason.empty())
    text += fmt::format("ended early      after step {}: {}\n", training.engine.step_count(),
                        run.fit.stop_reason);
  text += validation_text(training);
  if (!steps.empty())
    text += fmt::format("speed            {0} {2}s/s, {1} {2}s/s per rank\n",
                        grouped(std::llround(run.tokens_per_second)),
                        grouped(std::llround(run.tokens_per_second / plan.rank_count())),
                        training.data.unit);
  text += fmt::format("peak memory      {} per rank\n",
                      to_text(training.engine.runtime().peak_bytes()));
  if (training.predicted) text += comparison_text(*training.predicted, measured_of(training));
  if (!training.trace.empty()) text += "trace            " + training.trace + "\n";
  return text + written_text(command, training);
}

/// Opens the checkpoint that a run resumes from.
std::unique_ptr<Checkpoint> open_resumed(FileSystem& disk, const TrainCommand& command) {
  const auto path = checkpoint_to_resume(disk, command.resume, command.out);
  return path ? std::make_unique<Checkpoint>(disk, *path) : nullptr;
}

/// The file for the trace. With several processes each writes the trace of its own ranks.
std::filesystem::path trace_path(const std::string& wanted, const Engine& engine) {
  if (engine.runtime().is_leader()) return wanted;
  return fmt::format("{}.rank-{:05}", wanted, engine.runtime().local_ranks().front());
}

void restore_and_tell(Engine& engine, FileSystem& disk, const TrainCommand& command,
                      std::unique_ptr<Checkpoint>& resumed) {
  // A run that asks for its last checkpoint continues from the last good one.
  if (command.resume->empty())
    restore_good(engine, disk, resumed);
  else
    restore(engine, *resumed);
  const Checkpoint& checkpoint = *resumed;
  tell(fmt::format("resume {}: step {}\n", checkpoint.folder().string(), checkpoint.step()) +
       changed_settings_text(*checkpoint.state().find("settings"),
                             resolved_settings(engine.config())));
  if (!engine.own_learning_rate())
    tell(rate_jump_note(stored_run(checkpoint).config.optimizer.schedule,
                        engine.config().optimizer.schedule, checkpoint.step()));
  const int64_t steps = engine.config().train.steps;
  if (checkpoint.step() < steps) return;
  tell(fmt::format(
      "note: the run has {} already, and train.steps is {}: no step is left. --steps is the whole "
      "length of the run, with the steps before --resume\n",
      counted(checkpoint.step(), "step"), steps));
}

/// Prepares everything that a run needs, and tells what it would do.
void tell_dry_run(const TrainCommand& command, Engine& engine, const RunData& data) {
  engine.prepare();
  const TrainConfig& train = engine.config().train;
  const int64_t left = std::max<int64_t>(train.steps - engine.step_count(), 0);
  Document document;
  document["dry_run"] = true;
  document["steps"] = left;
  document["batch"] = train.batch;
  document["ranks"] = engine.plan().rank_count();
  document["peak_bytes"] = engine.runtime().peak_bytes().value();
  document["plan"] =
      to_document(engine.plan(), engine.graph(), rewritten_fingerprint(engine.compiled()));
  document["notes"] = to_document(notes_for_user(engine));
  print_result(command.output, document,
               fmt::format("dry run          nothing is trained and nothing is written\n"
                           "would train      {} of {} under {}\n"
                           "data             {} {}s to train on, {} held out\n"
                           "peak memory      {} per rank\n",
                           counted(left, "step"), counted(train.batch, "row"),
                           plan_summary(engine.plan()), grouped(data.train_units), data.unit,
                           grouped(data.held_out_units), to_text(engine.runtime().peak_bytes())));
}

/// "note: 'DIR' has no checkpoint to resume from: the run begins at step 1\n"; "" otherwise.
std::string begins_note(const TrainCommand& command, bool is_resumed) {
  if (!command.resume || is_resumed) return "";
  return fmt::format("note: '{}' has no checkpoint to resume from: the run begins at step 1\n",
                     command.out);
}

/// "note: checkpoint.every is set, but without --out nothing is stored\n"; "" otherwise.
std::string not_stored_note(const TrainCommand& command, const CheckpointConfig& checkpoint) {
  if (!command.out.empty() || (checkpoint.every == 0 && !checkpoint.keep_best)) return "";
  return fmt::format("note: checkpoint.{} is set, but without --out nothing is stored\n",
                     checkpoint.every > 0 ? "every" : "keep_best");
}

void check_resume(const TrainCommand& command) {
  if (!command.resume || !command.resume->empty() || !command.out.empty()) return;
  refuse_usage("--resume does not say from where",
               "it continues from the latest checkpoint in the folder of --out",
               "add --out DIR of the run to continue, or name a checkpoint: "
               "--resume=DIR/checkpoints/step-00000100");
}

void check_trace(const TrainCommand& command) {
  if (!command.trace_steps || !command.trace.empty()) return;
  refuse_usage("--trace-steps has no --trace", "without a file no step is traced",
               "add --trace FILE, or remove --trace-steps");
}

/// What a run writes besides its result.
struct Outputs {
  std::optional<RunFolder> folder;
  std::optional<RunCheckpoints> checkpoints;
  std::optional<BestCheckpoint> best;
  std::optional<TraceFile> trace;
  std::vector<HeldOutLoss> earlier;  // of a run that is resumed: those of its evaluations

  Outputs(const TrainCommand& command, FileSystem& disk, Engine& engine,
          const std::optional<PredictedRun>& predicted) {
    if (!command.out.empty()) {
      const std::filesystem::path out = command.out;
      earlier = held_out_losses(out / "metrics.jsonl", engine.step_count());
      folder.emplace(out, engine, predicted ? std::optional(peak_of(*predicted)) : std::nullopt);
      // A checkpoint that is named is taken as good, whatever its losses were.
      const bool is_named = command.resume && !command.resume->empty();
      checkpoints.emplace(disk, out, engine,
                          is_named ? std::vector<double>{}
                                   : step_losses(out / "metrics.jsonl", engine.step_count()));
      if (engine.config().checkpoint.keep_best) best.emplace(disk, out, engine, earlier);
    }
    if (!command.trace.empty()) {
      const std::filesystem::path path = trace_path(command.trace, engine);
      engine.runtime().on_all_processes([&] { check_output(path); });
      trace.emplace(engine, path, command.trace_steps.value_or(kTraceSteps));
    }
  }

  RunServices services() {
    return {.folder = folder ? &*folder : nullptr,
            .checkpoints = checkpoints ? &*checkpoints : nullptr,
            .best = best ? &*best : nullptr,
            .trace = trace ? &*trace : nullptr,
            .earlier = earlier};
  }
};

/// "note: the plan asks for 'gpu'; its ranks compute on the cores of this machine\n"; "" otherwise.
std::string hardware_note(const Plan& plan) {
  for (const std::string& need : plan.hardware())
    if (!need.empty() && need != to_text(HardwareKind::kCpu))
      return fmt::format(
          "note: the plan asks for '{}'; its ranks compute on the cores of this machine\n", need);
  return "";
}

/// Notes of a plan that was made for another cluster, with the step that is estimated for this one.
std::string cluster_notes(const TrainCommand& command, Engine& engine) {
  const Plan& plan = engine.plan();
  std::string text;
  if (plan.mapping)
    text += "note: the plan maps its ranks to devices of '" + plan.mapping->cluster +
            "'; a run does not: its ranks are where they are started\n";
  if (plan.cost.cluster.empty()) return text;
  const auto& given = command.config.automatic.cluster;
  const std::string here = given.value_or("this machine");
  const auto cluster = cluster_for(command.config.automatic);
  const std::string other = other_cluster_note(
      plan, cluster->description(), here,
      ": it may not be the fastest here, and what it leaves to the compiler follows other prices");
  if (other.empty() || given) return text + other;  // with --cluster the prediction is printed
  std::optional<PredictedRun> predicted;
  try {
    predicted = predict_run({engine.network(), engine.config(), engine.graph()}, plan,
                            engine.compiled(), {cluster, here});
  } catch (const UserError&) {  // it has too few devices, or others
    return text + other;
  }
  return text + other + "note: estimated for this machine, a step takes " +
         step_text(predicted->prediction.step) + "\n";
}

std::string start_text(const TrainCommand& command, const Engine& engine, const RunConfig& config,
                       const RunData& data) {
  return fmt::format("train {}: {} {}s, {}\n", command.config.file, grouped(data.train_units),
                     data.unit, plan_summary(engine.plan())) +
         hardware_note(engine.plan()) + left_out_note(config.data, data) +
         notes_summary(notes_for_user(engine)) + not_stored_note(command, config.checkpoint);
}

void load_base(Engine& engine, const ModelConfig& model, RealFileSystem& disk,
               const std::string& base) {
  if (!has_parameters(base))
    return load_parameters(engine, Checkpoint(disk, find_checkpoint(disk, base)));
  const std::vector<std::string> unread = load_parameters(engine, model, disk, base);
  if (!unread.empty())
    tell("note: tensors of '" + base + "' that no parameter reads: " + join(unread, ", ") + "\n");
}

}  // namespace

std::string continue_command(const std::vector<std::string>& words) {
  std::string text = "train";
  for (const std::string& word : words)
    if (word != "--resume" && !word.starts_with("--resume=")) text += " " + shell_quoted(word);
  return text + " --resume";
}

void TrainCommand::describe(OptionParser& parser) {
  add_options(parser, config);
  add_options(parser, config.automatic);
  add_options(parser, liveness);
  parser.number({"--steps", "N", "Length of the run; default: train.steps"}, steps, int64_t{0});
  parser.text({"-o,--out", "DIR",
               "Folder for plan.json, config.json, metrics.jsonl, logs, TensorBoard events and "
               "checkpoints"},
              out);
  parser.flag_with_value({"--resume", "",
                          "Continue from the latest checkpoint in --out, or from "
                          "--resume=CHECKPOINT, under its plan unless --plan is given"},
                         resume);
  parser.check([this] { check_resume(*this); });
  parser.text(
      {"--base", "CHECKPOINT",
       "Begin with the parameters of a checkpoint, or of the latest of a run folder, of a "
       "*.safetensors file of export, or of a folder of Hugging Face, at step 0; with --resume it "
       "is not read"},
      base);
  parser.text({"--trace", "FILE",
               "File for a trace of what every rank does when: open it in ui.perfetto.dev"},
              trace);
  parser.number({"--trace-steps", "N", "Steps in the trace, after two warm-up steps; default: 3"},
                trace_steps, int64_t{1});
  parser.check([this] { check_trace(*this); });
  parser.flag({"--dry-run", "",
               "Do everything but the steps: read the data, compile, allocate, load a checkpoint"},
              dry_run);
  parser.flag({"--check-replicas", "",
               "After each step compare a hash of every variable with those of its replicas"},
              check_replicas);
  add_options(parser, compilation);
  add_options(parser, output);
}

int TrainCommand::rank_count() const {
  RealFileSystem disk;
  const auto resumed = open_resumed(disk, *this);
  return open_session(config, resumed ? std::optional(stored_run(*resumed).plan) : std::nullopt)
      .plan.rank_count();
}

ExitCode TrainCommand::run(Processes& processes) {
  if (!out.empty()) check_output_folder(out);
  // Without a folder there is nothing to save, and signals end the run as they end any program.
  std::optional<StopSignals> signals;
  std::optional<RunLock> lock;
  const bool locks = !out.empty() && processes.is_leader();
  if (!out.empty()) {
    signals.emplace();
    survive_lost_reader();
  }
  if (locks && path_exists(out)) lock.emplace(out);
  // The leader holds the lock when the others are connected with it. Before that, another run may
  // still store and remove checkpoints, so that processes would find different ones.
  std::optional<RuntimeOptions> connected;
  if (resume || (processes.are_several() && config.plan.may_be_automatic()))
    connected = processes.connect(liveness.deadline());
  RealFileSystem disk;
  auto resumed = open_resumed(disk, *this);
  if (!resumed && !base.empty() && !has_parameters(base))
    find_checkpoint(disk, base);  // refuses what is none
  if (processes.are_several()) share_plans(config, processes, liveness.deadline());
  Session session =
      open_session(with_steps(config, steps),
                   resumed ? std::optional(stored_run(*resumed).plan) : std::nullopt, compilation);
  // A changed model, batch or text is reported by restore(), which names the setting.
  if (resumed && !config.plan.plan) session.plan.fingerprint.reset();
  const auto data = load_data_of(session.config);
  processes.check_plan(session.plan);
  Engine engine(session.config, session.plan, data,
                {.runtime = connected ? *connected : processes.connect(liveness.deadline()),
                 .verify_passes = compilation.verify,
                 .initialize = !resumed});
  tell(start_text(*this, engine, session.config, *data) +
       (out.empty() ? "" : processes.stop_signals_note()) + begins_note(*this, resumed != nullptr));
  if (!config.plan.is_automatic() && processes.is_leader()) tell(cluster_notes(*this, engine));
  if (resumed) restore_and_tell(engine, disk, *this, resumed);
  if (!resumed && !base.empty()) load_base(engine, session.config.model, disk, base);
  if (session.config.data.held_out > 0) engine.prepare_evaluation();
  if (dry_run) {
    tell_dry_run(*this, engine, *data);
    return ExitCode::kDone;
  }
  if (locks && !lock) lock.emplace(out);
  const std::optional<PredictedRun> predicted =
      prediction_of(*this, engine, session.config.data.held_out > 0);
  Outputs outputs(*this, disk, engine, predicted);
  Training training{.engine = engine,
                    .data = *data,
                    .run = {},
                    .resumed_from = resumed ? std::optional(resumed->step()) : std::nullopt,
                    .predicted = predicted};
  RunServices services = outputs.services();
  services.signals = signals ? &*signals : nullptr;
  services.check_replicas = check_replicas;
  services.evaluate_at_end = session.config.data.held_out > 0;
  services.unit = data->unit;
  training.run = train_to_end(engine, services);
  if (training.run.held_out) check_is_a_number(*training.run.held_out);
  if (outputs.trace) training.trace = outputs.trace->summary();
  if (outputs.checkpoints) training.checkpoint = outputs.checkpoints->last();
  print_result(output, result_document(*this, training), result_text(*this, training));
  return training.run.stopped_by ? ExitCode::kPreempted : ExitCode::kDone;
}

}  // namespace tessera
