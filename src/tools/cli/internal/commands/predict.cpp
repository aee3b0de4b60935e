#include "tools/cli/internal/commands/predict.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "base/files/file.h"
#include "base/text/count_text.h"
#include "tools/cli/internal/run/loaded_model.h"
#include "tools/cli/internal/run/session.h"
#include "training/data/npy_writer.h"
#include "training/engine/predictions.h"

namespace tessera {
namespace {

void check_ending(const std::string& file) {
  const std::string ending = std::filesystem::path(file).extension().string();
  if (ending != ".npy" && ending != ".jsonl")
    refuse_usage("'" + file + "' has no ending that says its format",
                 "predictions are written as an array of NumPy or as JSON lines",
                 "give a name that ends in .npy or .jsonl");
}

std::string file_text(const Predictions& predictions, bool of_classes, const std::string& file) {
  if (std::filesystem::path(file).extension() == ".npy")
    return npy_bytes(predictions.values, predictions.shape);
  return json_lines(predictions, of_classes ? PredictionKind::kClasses : PredictionKind::kLogits);
}

/// An engine needs no data set to predict.
std::shared_ptr<const RunData> no_data(const StoredRun& run) {
  auto data = std::make_shared<RunData>();
  data->vocabulary = run.vocabulary.value_or(Vocabulary::bytes());
  return data;
}

}  // namespace

void PredictCommand::describe(OptionParser& parser) {
  add_options(parser, checkpoint);
  add_options(parser, liveness);
  parser.required_text(
      {"--data", "FILE", "Images in .npy or IDX; rows of tokens in .npy or .jsonl; or a text"},
      data);
  parser.required_text(
      {"-o,--output", "OUT", "The file to write, one row for each sample: .npy, or .jsonl"}, to);
  parser.flag(
      {"--classes", "", "Write the likeliest class and its probability in place of the logits"},
      classes);
  parser.check([this] { check_ending(to); });
  add_options(parser, output);
}

int PredictCommand::rank_count() const {
  return stored_rank_count(checkpoint);
}

ExitCode PredictCommand::run(Processes& processes) {
  RealFileSystem disk;
  const Checkpoint stored(disk, find_checkpoint(disk, checkpoint.path));
  if (processes.are_several()) checkpoint.plan.processes = processes.count();
  const StoredRun run = open_stored_run(stored, checkpoint);
  const OwnSamples own = read_own_samples(data, run);
  if (processes.is_leader()) check_can_write(to);
  processes.check_plan(run.plan);
  Engine engine = load_model(stored, run, no_data(run), processes.connect(liveness.deadline()));
  std::cerr << fmt::format("predict {}: step {}, {}\n", stored.folder().string(), stored.step(),
                           plan_summary(engine.plan()));
  if (own.left_out_tokens > 0)
    std::cerr << fmt::format("note: the last {} of '{}' fill no row of {} and are left out\n",
                             counted(own.left_out_tokens, "token"), data, run.config.model.context);
  Predictions predictions = predict_all(engine, *own.samples);
  if (classes) predictions = likeliest_classes(predictions);
  if (processes.is_leader()) write_file(to, file_text(predictions, classes, to));
  Document document;
  document["checkpoint"] = stored.folder().string();
  document["step"] = stored.step();
  document["data"] = data;
  document["file"] = to;
  document["rows"] = predictions.rows();
  document["shape"] = Document::List(predictions.shape.begin(), predictions.shape.end());
  document["left_out_tokens"] = own.left_out_tokens;
  document["ranks"] = engine.plan().rank_count();
  print_result(output, document,
               fmt::format("{}: {} of {}\n", to, counted(predictions.rows(), "row"),
                           classes ? "classes with probabilities" : "logits"));
  return ExitCode::kDone;
}

}  // namespace tessera
