#include "tools/cli/internal/commands/demo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <ostream>

#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "base/threads/worker.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/automatic_plan.h"
#include "tools/cli/internal/run/measured_run.h"
#include "tools/cli/internal/run/named_model.h"
#include "tools/cli/internal/run/predicted_run.h"
#include "tools/cli/internal/run/session.h"
#include "tools/cli/internal/run/trainer.h"
#include "tools/measure/machine.h"
#include "training/data/vocabulary.h"

namespace tessera {
namespace {

constexpr int kMinRanks = 2, kMaxRanks = 4;
constexpr int64_t kComparedSteps = 10;
constexpr int64_t kSampleTokens = 300;
constexpr double kTemperature = 0.8;

std::filesystem::path find_configs() {
  const std::filesystem::path folder = config_folder();
  if (!folder.empty()) return folder;
  throw UserError(
      "the demo finds no configs/gpt.toml",
      "it looked in the sources of the program, beside it and in its installation",
      "run the program from its source folder's build, or put the folder configs beside it",
      ExitCode::kMissingInput);
}

Session open_demo(const DemoCommand& command) {
  const std::filesystem::path configs = find_configs();
  const ConfigOptions config{.file = (configs / "gpt.toml").string(),
                             .overrides = command.overrides};
  return open_session(with_steps(config, command.steps));
}

/// Losses of the same steps, serially and divided, and their difference.
struct Comparison {
  std::vector<double> serial;
  std::vector<double> divided;
  double largest_fraction = 0;    // largest difference, as a fraction of its tolerance
  double largest_difference = 0;  // relative
  bool agree() const { return largest_fraction <= 1; }
};

/// The relative error that rounding may cause in the loss of step `step`, counted from 0.
///
/// Dividing a sum changes only the order of its additions. A sum of n terms in f32 has an error of
/// about sqrt(n) 2^-24 of their size, since roundings of random sign add up (Higham, Accuracy and
/// Stability, section 2.8). The longest sums here are those of a weight's gradient over the tokens
/// of the batch, of the feed-forward's 4 width channels, and of the vocabulary. The errors of a
/// step stay in the weights, so step t has t + 1 of them; the factor 4 is a safety margin. `tessera
/// verify` measures tighter tolerances, tensor by tensor.
double loss_tolerance(const RunConfig& config, int64_t step) {
  const int64_t terms = std::max(
      {config.train.batch * config.model.context, 4 * config.model.width, config.model.vocabulary});
  return 4 * static_cast<double>(step + 1) * std::sqrt(static_cast<double>(terms)) *
         std::ldexp(1.0, -24);
}

Comparison compare_first_steps(Engine& serial, Engine& divided, const RunConfig& config) {
  Comparison comparison;
  for (int64_t step = 0; step < std::min(kComparedSteps, config.train.steps); ++step) {
    comparison.serial.push_back(serial.step().loss);
    comparison.divided.push_back(divided.step().loss);
    const double difference = std::abs(comparison.divided.back() / comparison.serial.back() - 1);
    comparison.largest_difference = std::max(comparison.largest_difference, difference);
    comparison.largest_fraction =
        std::max(comparison.largest_fraction, difference / loss_tolerance(config, step));
  }
  return comparison;
}

std::string comparison_text(const Comparison& comparison, const RunConfig& config, int ranks) {
  TextTable table({"step", "serial", counted(ranks, "rank"), "difference", "rounding may do"},
                  "rrrrr");
  for (size_t i = 0; i < comparison.serial.size(); ++i)
    table.add({std::to_string(i + 1), fmt::format("{:.7f}", comparison.serial[i]),
               fmt::format("{:.7f}", comparison.divided[i]),
               fmt::format("{:.1e}", std::abs(comparison.divided[i] - comparison.serial[i])),
               fmt::format("{:.1e}", loss_tolerance(config, i) * comparison.serial[i])});
  return table.text(5);
}

/// Indented text that is safe for a terminal: control characters and invalid UTF-8 become '?'.
std::string framed(std::string_view text) {
  std::string framed = "   | ";
  while (!text.empty()) {
    const int length = utf8_length(text);
    const bool is_control =
        length == 1 && static_cast<unsigned char>(text[0]) < 32 && text[0] != '\t';
    if (text[0] == '\n')
      framed += "\n   | ";
    else if (length == 0 || is_control)
      framed += '?';
    else
      framed += text.substr(0, length);
    text.remove_prefix(std::max(length, 1));
  }
  return framed + "\n";
}

/// The first tokens of the held-out text, on which the model was not trained.
std::vector<int32_t> held_out_start(const RunData& data) {
  const Sampler sampler({.samples = data.held_out->samples(),
                         .batch = 1,
                         .parts = 1,
                         .shuffle = Shuffle::kNone,
                         .tail = Tail::kDrop,
                         .seed = 0});
  const Batch batch = data.held_out->batch(sampler, 0, {0, 1});
  const auto tokens = batch.at("tokens").values<int32_t>();
  return {tokens.begin(), tokens.end()};
}

/// The demo; one function for each numbered paragraph.
class Demo {
 public:
  explicit Demo(const DemoCommand& command)
      : output_(command.output), session_(open_demo(command)) {}

  ExitCode run(const OutputOptions& output) {
    read_text();
    build_model();
    find_plan();
    compare();
    train();
    write_text();
    end();
    print_result(output, document_, "");
    return comparison_.agree() ? ExitCode::kDone : ExitCode::kVerificationFailed;
  }

 private:
  const RunConfig& config() const { return session_.config; }

  /// Prints and flushes, so that the current activity is on the screen.
  template <typename... Values>
  void say(fmt::format_string<Values...> text, Values&&... values) {
    narrate(output_, fmt::format(text, std::forward<Values>(values)...));
  }

  void read_text() {
    say("1. Reads text from {}.\n", join(config().data.path, ", "));
    data_ = load_data_of(session_.config);
    say("   {} tokens to train on, {} held out. Guessed from the token before it, a held-out token "
        "costs {:.3f} nats: their bigram "
        "entropy.\n\n",
        grouped(data_->train_units), grouped(data_->held_out_units), data_->baseline->nats);
  }

  void build_model() {
    const ModelConfig& model = config().model;
    say("2. Builds the model as a serial program: {} with {} of width {} over {} tokens.\n",
        model.kind, counted(model.layers, "layer"), model.width, model.context);
    serial_.emplace(config(), serial_plan(), data_);
    say("   {} parameters, {} ops in a training step.\n\n",
        grouped(parameter_count(serial_->graph())), grouped(std::ssize(serial_->graph().ops())));
  }

  void find_plan() {
    const int ranks = std::clamp(default_ranks({}), kMinRanks, kMaxRanks);
    say("3. Finds a plan for {}: how each op and each tensor is divided.\n",
        counted(ranks, "rank"));
    AutomaticPlan found = find_automatic_plan({.run = config()}, ranks, {});
    say("   {}\n\n", join(found.verdict, "\n   "));
    session_.plan = std::move(found.plan);
    divided_.emplace(config(), session_.plan, data_);
    document_["plan"] = session_.plan.name;
  }

  void compare() {
    say("4. Trains the first steps twice: serially, and under {}.\n", plan_summary(session_.plan));
    comparison_ = compare_first_steps(*serial_, *divided_, config());
    say("{}   {}: the largest relative difference is {:.1e}, {:.2g} of what rounding may do.\n\n",
        comparison_text(comparison_, config(), session_.plan.rank_count()),
        comparison_.agree() ? "They agree" : "THEY DO NOT AGREE", comparison_.largest_difference,
        comparison_.largest_fraction);
    document_["ok"] = comparison_.agree();
    document_["steps"] = config().train.steps;
    document_["serial_losses"] = to_document(comparison_.serial);
    document_["losses"] = to_document(comparison_.divided);
    document_["largest_difference"] = comparison_.largest_difference;
  }

  /// The time of a serial step while every core of the plan runs one, as its ranks will.
  Seconds busy_serial_step() const {
    std::vector<std::vector<Seconds>> times(static_cast<size_t>(session_.plan.rank_count()));
    std::vector<std::unique_ptr<Worker>> workers;
    for (std::vector<Seconds>& mine : times)
      workers.push_back(std::make_unique<Worker>([this, &mine] {
        Engine engine(config(), serial_plan(), data_);
        for (int64_t step = 0; step < kComparedSteps; ++step) mine.push_back(engine.step().time);
      }));
    for (const auto& worker : workers) worker->join();
    return usual_step(times.front());
  }

  /// Says what the run will take before it begins: by the rates of kernels, which are measured
  /// now, times what serial steps take beyond what these rates say of them.
  void predict() {
    const auto machine = std::make_shared<const Cluster>(measure_machine());
    const auto seconds_of = [&](Engine& engine) {
      return predict_run({engine.network(), engine.config(), engine.graph()}, engine.plan(),
                         engine.compiled(), {machine, "this machine"})
          .prediction.step.value();
    };
    const double beyond = busy_serial_step().value() / seconds_of(*serial_);
    predicted_speed_ = static_cast<double>(config().train.batch * config().model.context) /
                       (seconds_of(*divided_) * beyond);
    say("   By the rates of kernels on this machine, measured now, and by serial steps on all "
        "cores, "
        "which take {:.2f} times what these rates say: {} tokens per second.\n",
        beyond, grouped(std::llround(predicted_speed_)));
    document_["predicted_tokens_per_s"] = predicted_speed_;
  }

  void train() {
    if (divided_->step_count() < config().train.steps)
      say("5. Continues with {} to step {}.\n", counted(session_.plan.rank_count(), "rank"),
          config().train.steps);
    else
      say("5. Ends here: the run has {} only.\n", counted(config().train.steps, "step"));
    if (divided_->step_count() < config().train.steps) predict();
    const TrainedRun run = train_to_end(*divided_);
    say("{}\n", run.fit.steps.empty() ? "" : speed_text(run.tokens_per_second));
    say("6. Measures the held-out text.\n   The validation loss is {:.3f} nats per token on {} "
        "tokens, {} "
        "their bigram entropy of {:.3f}.\n\n",
        run.held_out->loss, grouped(run.held_out->tokens),
        run.held_out->loss < data_->baseline->nats ? "below" : "not yet below",
        data_->baseline->nats);
    for (double loss : run.losses()) document_["losses"].append(loss);
    document_["val_loss"] = run.held_out->loss;
    document_["bigram_entropy"] = data_->baseline->nats;
    document_["tokens_per_s"] =
        run.fit.steps.empty() ? Document() : Document(run.tokens_per_second);
  }

  std::string speed_text(double measured) const {
    const double excess = 100 * (predicted_speed_ / measured - 1);
    return fmt::format("   {} tokens per second; {} were predicted, {:.0f}% {}.\n",
                       grouped(std::llround(measured)), grouped(std::llround(predicted_speed_)),
                       std::abs(excess), excess < 0 ? "fewer" : "more");
  }

  void write_text() {
    const std::vector<int32_t> prompt = held_out_start(*data_);
    const std::string given = data_->vocabulary.decode(prompt);
    say("7. Lets the model continue the first {} tokens of the held-out text.\n\n   given\n{}\n",
        prompt.size(), framed(given));
    const std::string text = data_->vocabulary.decode(divided_->text().generate(
        prompt, kSampleTokens, {.temperature = kTemperature, .seed = config().train.seed}));
    say("   written by the model\n{}\n", framed(text));
    document_["prompt"] = given;
    document_["text"] = text;
  }

  void end() {
    say("What was shown: the model was written once, as a serial program; a plan that was found "
        "divided it over {}, and in the first {} its losses {}.\n\n"
        "Try next\n"
        "  ./dev tessera verify  configs/mlp.toml --plan configs/plans/mlp.dp2-tp2.json            "
        "every tensor against the serial "
        "program\n"
        "  ./dev tessera explain configs/gpt.toml --plan configs/plans/gpt.dp2-tp2.json            "
        "every placement, what is sent, and why\n"
        "  ./dev tessera explain configs/gpt.toml --plan configs/plans/gpt.tp4.json "
        "'blocks.0.ffn.*'\n"
        "  ./dev tessera train   configs/gpt.toml --plan configs/plans/gpt.dp4.json --out runs/1   "
        "train, with metrics in a folder\n"
        "  ./dev tessera plan    configs/gpt.toml --cluster 8xa100-80g                             "
        "the plan for other devices, and all that it was compared with\n",
        counted(session_.plan.rank_count(), "rank"),
        counted(std::ssize(comparison_.serial), "step"),
        comparison_.agree() ? "were the serial ones up to rounding" : "WERE NOT the serial ones");
  }

  OutputOptions output_;
  Session session_;
  std::shared_ptr<const RunData> data_;
  std::optional<Engine> serial_, divided_;
  double predicted_speed_ = 0;  // tokens per second; 0 without a prediction
  Comparison comparison_;
  Document document_;
};

}  // namespace

void DemoCommand::describe(OptionParser& parser) {
  add_options(parser, overrides);
  parser.number({"--steps", "N", "Length of the run; default: train.steps of configs/gpt.toml"},
                steps, int64_t{0});
  add_options(parser, output);
}

ExitCode DemoCommand::run(Processes&) {
  return Demo(*this).run(output);
}

}  // namespace tessera
