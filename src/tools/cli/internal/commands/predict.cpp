#include "tools/cli/internal/commands/predict.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/text/count_text.h"
#include "tools/cli/internal/print/plan/notes.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/run/loaded_model.h"
#include "tools/cli/internal/run/output_files.h"
#include "tools/cli/internal/run/session.h"
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

/// Which tokens have no prediction, and what to do about it.
std::string left_out_text(const OwnSamples& own, const std::string& file, int64_t context) {
  if (own.left_out_tokens == 0) return "";
  return fmt::format(
      "note: the last {} of '{}' have no prediction: the model reads rows of {} tokens, and they "
      "fill none; with {} more at its end the file has them in a row\n",
      counted(own.left_out_tokens, "token"), file, context, context - own.left_out_tokens);
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
  parser.required_text({"-o,--out",
                        "FILE",
                        "The file to write, one row for each sample: .npy, or .jsonl",
                        {"--output"}},
                       to);
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
  if (processes.is_leader()) check_output(to);
  processes.check_plan(run.plan);
  Engine engine = load_model(stored, run, no_data(run), processes.connect(liveness.deadline()));
  tell(fmt::format("predict {}: step {}, {}\n", stored.folder().string(), stored.step(),
                   plan_summary(engine.plan())) +
       notes_summary(notes_for_user(engine)));
  tell(left_out_text(own, data, run.config.model.context));
  const int64_t rows = own.samples->samples();
  // All processes predict, and the leader writes.
  std::optional<PredictionFile> file;
  if (processes.is_leader())
    file.emplace(to, classes ? PredictionKind::kClasses : PredictionKind::kLogits, rows);
  predict_each(engine, *own.samples, [&](const Predictions& next) {
    if (file) file->append(next);
  });
  if (file) file->finish();
  Document document;
  document["checkpoint"] = stored.folder().string();
  document["step"] = stored.step();
  document["data"] = data;
  document["file"] = to;
  document["rows"] = rows;
  if (file) document["shape"] = Document::List(file->shape().begin(), file->shape().end());
  document["left_out_tokens"] = own.left_out_tokens;
  document["ranks"] = engine.plan().rank_count();
  print_result(output, document,
               fmt::format("{}: {} of {}\n", to, counted(rows, "row"),
                           classes ? "classes with probabilities" : "logits"));
  return ExitCode::kDone;
}

}  // namespace tessera
