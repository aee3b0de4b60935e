#include "tools/cli/internal/commands/eval.h"

#include <fmt/format.h>

#include "tools/cli/internal/print/plan/notes.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/print/progress.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/loaded_model.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {

void EvalCommand::describe(OptionParser& parser) {
  add_options(parser, checkpoint);
  add_options(parser, liveness);
  add_options(parser, output);
}

int EvalCommand::rank_count() const {
  return stored_rank_count(checkpoint);
}

ExitCode EvalCommand::run(Processes& processes) {
  RealFileSystem disk;
  const Checkpoint stored(disk, find_checkpoint(disk, checkpoint.path));
  if (processes.are_several()) checkpoint.plan.processes = processes.count();
  StoredRun run = open_stored_run(stored, checkpoint);
  const RunConfig& config = run.config;
  const auto data = std::make_shared<const RunData>(
      load_data(config.data, {.context = config.model.context, .vocabulary = run.vocabulary}));
  processes.check_plan(run.plan);
  Engine engine = load_model(stored, run, data, processes.connect(liveness.deadline()));
  tell(fmt::format("eval {}: step {}, {}\n", stored.folder().string(), stored.step(),
                   plan_summary(engine.plan())) +
       left_out_note(config.data, *data) + notes_summary(notes_for_user(engine)));
  EvaluationProgress progress;
  const Engine::Evaluation result =
      engine.evaluate(config.train.evaluate_batches,
                      [&](int64_t done, int64_t batches) { progress.batch(done, batches); });
  check_is_a_number(result);
  Document document;
  document["checkpoint"] = stored.folder().string();
  document["step"] = stored.step();
  add_evaluation(document, result, engine.network(), *data);
  add_bar(document, *data);
  document["ranks"] = engine.plan().rank_count();
  const std::string text = "validation loss  " + evaluation_text(result, *data);
  print_result(output, document, text);
  return ExitCode::kDone;
}

}  // namespace tessera
