// The demo: placements do not change results, and the model learns. A line to each thing that it does.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <ostream>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/text_table.h"
#include "cli/trainer.h"
#include "data/vocabulary.h"

namespace tessera {
namespace {

constexpr int64_t kComparedSteps = 10;
constexpr int64_t kSampleTokens = 300;
constexpr double kTemperature = 0.8;

/// The configurations of the source folder that this program was built from, or else those that lie beside the program.
std::filesystem::path find_configs() {
  std::error_code unknown;
  const std::filesystem::path built(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs");
  const std::filesystem::path beside = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path() / "configs";
  for (const auto& folder : {built, beside})
    if (std::filesystem::exists(folder / "gpt.toml", unknown)) return folder;
  throw UserError("the demo finds no configs/gpt.toml", "it looked in '" + built.string() + "' and in '" + beside.string() + "'",
                  "run the program from its source folder's build, or put the folder configs beside it", ExitCode::kMissingInput);
}

Session open_demo(const Arguments& arguments) {
  const std::filesystem::path configs = find_configs();
  Arguments of_demo = arguments;
  of_demo.file = (configs / "gpt.toml").string();
  Session session = open_session(of_demo);
  session.plan = read_plan(configs / "plans" / (session.config.model.kind + ".dp2-tp2.json"));
  return session;
}

/// Losses of the same steps, serially and divided, and how far apart they may be.
struct Comparison {
  std::vector<double> serial;
  std::vector<double> divided;
  double largest_fraction = 0;     // largest difference, as a fraction of its tolerance
  double largest_difference = 0;   // relative
  bool agree() const { return largest_fraction <= 1; }
};

/// What rounding may do to the loss of step `step` (from 0), relative to it.
///
/// Dividing a sum changes the order of its additions and nothing else. A sum of n terms in f32 is off by about sqrt(n) 2^-24 of their size, as roundings
/// of random sign add up (Higham, Accuracy and Stability, section 2.8). The longest sums here are those of a weight's gradient over the tokens of the batch,
/// of the feed-forward's 4 width channels, and of the vocabulary. What a step adds stays in the weights, so that step t has had t + 1 of them; four
/// times that leaves room for signs that fall worse. `tessera verify` measures tighter tolerances, tensor by tensor.
double loss_tolerance(const RunConfig& config, int64_t step) {
  const int64_t terms = std::max({config.train.batch * config.model.context, 4 * config.model.width, config.model.vocabulary});
  return 4 * static_cast<double>(step + 1) * std::sqrt(static_cast<double>(terms)) * std::ldexp(1.0, -24);
}

Comparison compare_first_steps(Engine& serial, Engine& divided) {
  Comparison comparison;
  for (int64_t step = 0; step < std::min(kComparedSteps, serial.config().train.steps); ++step) {
    comparison.serial.push_back(serial.step().loss);
    comparison.divided.push_back(divided.step().loss);
    const double difference = std::abs(comparison.divided.back() / comparison.serial.back() - 1);
    comparison.largest_difference = std::max(comparison.largest_difference, difference);
    comparison.largest_fraction = std::max(comparison.largest_fraction, difference / loss_tolerance(serial.config(), step));
  }
  return comparison;
}

void tell_comparison(std::ostream& out, const Comparison& comparison, const RunConfig& config, int ranks) {
  TextTable table({"step", "serial", counted(ranks, "rank"), "difference", "rounding may do"}, "rrrrr");
  for (size_t i = 0; i < comparison.serial.size(); ++i)
    table.add({std::to_string(i + 1), fmt::format("{:.7f}", comparison.serial[i]), fmt::format("{:.7f}", comparison.divided[i]),
               fmt::format("{:.1e}", std::abs(comparison.divided[i] - comparison.serial[i])),
               fmt::format("{:.1e}", loss_tolerance(config, static_cast<int64_t>(i)) * comparison.serial[i])});
  fmt::print(out, "{}   {}: the largest relative difference is {:.1e}, {:.2g} of what rounding may do.\n\n", table.text(5),
             comparison.agree() ? "They agree" : "THEY DO NOT AGREE", comparison.largest_difference, comparison.largest_fraction);
}

/// As a terminal may see it: control characters and what is not UTF-8 become '?', and each line is set in.
std::string framed(std::string_view text) {
  std::string framed = "   | ";
  while (!text.empty()) {
    const int length = utf8_length(text);
    const bool is_control = length == 1 && static_cast<unsigned char>(text[0]) < 32 && text[0] != '\t';
    if (text[0] == '\n') framed += "\n   | ";
    else if (length == 0 || is_control) framed += '?';
    else framed += text.substr(0, static_cast<size_t>(length));
    text.remove_prefix(static_cast<size_t>(std::max(length, 1)));
  }
  return framed + "\n";
}

/// The first tokens of the held-out text, of which the model has seen nothing.
std::vector<int32_t> held_out_start(const TextData& data) {
  const Sampler sampler({.samples = data.held_out->samples(), .batch = 1, .parts = 1, .shuffle = Shuffle::kNone, .tail = Tail::kDrop, .seed = 0});
  const TextBatch batch = data.held_out->batch(sampler, 0, {0, 1});
  const auto tokens = batch.inputs.values<int32_t>();
  return {tokens.begin(), tokens.end()};
}

int64_t parameter_count(const Graph& graph) {
  int64_t count = 0;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) count += element_count(graph.type(variable.value).shape);
  return count;
}

void tell_end(std::ostream& out) {
  fmt::print(out,
             "What was shown: the model was written once, for one process; {} marks divided it over four ranks; the losses stayed the same up to\n"
             "rounding, and it learned more than which byte follows which.\n\n"
             "Try next\n"
             "  ./dev tessera verify  configs/mlp.toml --plan configs/plans/mlp.dp2-tp2.json            every tensor against the serial program\n"
             "  ./dev tessera explain configs/gpt.toml --plan configs/plans/gpt.dp2-tp2.json            where everything lies, what is sent, and why\n"
             "  ./dev tessera explain configs/gpt.toml --plan configs/plans/gpt.tp4.json 'blocks.0.ffn.*'\n"
             "  ./dev tessera train   configs/gpt.toml --plan configs/plans/gpt.dp4.json --out runs/1   train, with metrics in a folder\n",
             "nine");
}

}  // namespace

ExitCode run_demo(const Arguments& arguments) {
  std::ostream& out = narration(arguments);
  Session session = open_demo(arguments);
  RunConfig& config = session.config;

  fmt::print(out, "1. Reads text from {}.\n", join(config.data.path, ", "));
  const auto data = load_text_of(config);
  fmt::print(out, "   {} tokens to train on, {} held out. Knowing the token before, {:.3f} nats a token of the held-out text are left to guess.\n\n",
             grouped(data->train_tokens), grouped(data->held_out_tokens), data->bigram_entropy);

  fmt::print(out, "2. Builds the model, one serial program: {}.\n", config.model.kind);
  Engine serial(config, serial_plan(), data);
  Engine divided(config, session.plan, data);
  fmt::print(out, "   {} parameters, {} ops in a training step.\n\n", grouped(parameter_count(serial.graph())), grouped(static_cast<int64_t>(serial.graph().ops().size())));

  fmt::print(out, "3. Trains the first steps twice: serially, and by {}.\n", describe(divided.plan()));
  out.flush();
  const Comparison comparison = compare_first_steps(serial, divided);
  tell_comparison(out, comparison, config, divided.plan().ranks());

  fmt::print(out, "4. Goes on with the {} to step {}.\n", counted(divided.plan().ranks(), "rank"), config.train.steps);
  out.flush();
  const TrainedRun run = train_to_end(divided);
  fmt::print(out, "   {} tokens a second.\n\n", grouped(std::llround(run.tokens_per_second)));

  fmt::print(out, "5. Measures the held-out text: a loss of {:.3f} nats a token, {} the bigram entropy of {:.3f}.\n\n", run.held_out_loss,
             run.held_out_loss < data->bigram_entropy ? "below" : "not yet below", data->bigram_entropy);

  const std::vector<int32_t> prompt = held_out_start(*data);
  const std::string text = data->vocabulary.decode(divided.generate(prompt, kSampleTokens, kTemperature, config.train.seed));
  fmt::print(out, "6. Lets the model write {} tokens after the first {} of the held-out text:\n\n{}\n", kSampleTokens, prompt.size(),
             framed(data->vocabulary.decode(prompt) + text));
  tell_end(out);

  Document document;
  document["ok"] = comparison.agree();
  document["steps"] = config.train.steps;
  document["serial_losses"] = to_document(comparison.serial);
  document["losses"] = to_document(comparison.divided);
  document["largest_difference"] = comparison.largest_difference;
  document["val_loss"] = run.held_out_loss;
  document["bigram_entropy"] = data->bigram_entropy;
  document["tokens_per_s"] = run.tokens_per_second;
  document["text"] = text;
  print_result(arguments, document, "");
  return comparison.agree() ? ExitCode::kDone : ExitCode::kVerificationFailed;
}

}  // namespace tessera
