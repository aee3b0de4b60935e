#include "tools/cli/internal/commands/verify.h"

#include <fmt/format.h>

#include "base/text/count_text.h"
#include "frontend/models/dumped_step.h"
#include "tools/cli/internal/print/plan/notes.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/print/progress.h"
#include "tools/cli/internal/print/verify_report.h"
#include "tools/cli/internal/run/named_model.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {
namespace {

/// From which it is told before the first step what a verification takes.
constexpr Bytes kLarge{int64_t{2} << 30};
constexpr Seconds kLong{60};

/// The options of the smallest case that has every kind of op and exchange of this one: two layers,
/// or one for each stage; two rows for each part of a batch and micro-batch.
std::string smaller_case(const Session& session) {
  const int64_t layers = std::max<int64_t>(2, std::ssize(session.plan.meshes));
  const int64_t ranks = session.plan.rank_count();
  const int64_t rows = 2 * ranks * std::max<int64_t>(1, session.plan.micro_batches);
  std::string text;
  if (layers < session.config.model.layers) text += fmt::format("--layers {} ", layers);
  if (rows < session.config.train.batch) text += fmt::format("--rows {} ", rows);
  return text + "--steps 1";
}

std::string need_text(const VerifyNeed& need) {
  std::string text = fmt::format("verify: it takes about {}", to_text(need.all()));
  if (need.seconds >= kLong) text += " and " + to_text(need.seconds);
  text += " (" + to_text(need);
  if (need.executions > 1)
    text += fmt::format("; each step is executed {} times, for a part of its tensors each",
                        need.executions);
  return text + ")\n";
}

}  // namespace

void VerifyCommand::describe(OptionParser& parser) {
  add_options(parser, config);
  add_options(parser, config.automatic);
  add_options(parser, liveness);
  parser.text({"--dump", "FOLDER",
               "Compare a step that another program dumped (clients/tessera_dump.py) with the "
               "serial program, in place of a plan; CONFIG is the model that it trained"},
              dump);
  parser.number({"--steps", "N", "Steps to compare; default: 3"}, steps, int64_t{1});
  parser.number({"--layers", "N", "Compare a model of N layers: --set model.layers=N"}, layers,
                int64_t{1});
  parser.number({"--rows", "N", "Compare a batch of N rows: --set train.batch=N"}, rows,
                int64_t{1});
  add_options(parser, compilation);
  add_options(parser, output);
}

ConfigOptions VerifyCommand::with_smaller_case() const {
  ConfigOptions smaller = config;
  if (layers) smaller.overrides.sets.push_back(fmt::format("model.layers={}", *layers));
  if (rows) smaller.overrides.sets.push_back(fmt::format("train.batch={}", *rows));
  return smaller;
}

int VerifyCommand::rank_count() const {
  if (!dump.empty()) return 1;
  return open_session(with_smaller_case()).plan.rank_count();
}

ExitCode VerifyCommand::verify_step() const {
  const DumpFolder folder = read_dump(dump);
  std::vector<std::string> sets = folder.sets;
  sets.insert(sets.end(), config.overrides.sets.begin(), config.overrides.sets.end());
  const RunConfig run = named_model(config.file, sets).run;
  const DumpedReport report = verify_dump(run, model_path(config.file), folder);
  print_result(output, dump_document(report), dump_text(report));
  return report.step.first_difference ? ExitCode::kVerificationFailed : ExitCode::kDone;
}

ExitCode VerifyCommand::run(Processes& processes) {
  if (!dump.empty()) return verify_step();
  config = with_smaller_case();
  std::optional<RuntimeOptions> connected;
  if (processes.are_several() && config.plan.may_be_automatic())
    connected = processes.connect(liveness.deadline());
  if (processes.are_several()) share_plans(config, processes, liveness.deadline());
  Session session = open_session(config, {}, compilation);
  const auto data = load_data_of(session.config);
  processes.check_plan(session.plan);
  VerifyOptions options;
  options.runtime = connected ? *connected : processes.connect(liveness.deadline());
  if (steps) options.steps = *steps;
  options.verify_passes = compilation.verify;
  tell(fmt::format("verify {}: {} against the serial program, {}\n", config.file,
                   plan_summary(session.plan), counted(options.steps, "step")));
  tell(left_out_note(session.config.data, *data));
  options.smaller_case = smaller_case(session);
  options.on_need = [&](const VerifyNeed& need) {
    if (need.all() >= kLarge || need.seconds >= kLong) tell(need_text(need));
  };
  VerifyReport report;
  {
    Progress progress(options.steps);
    progress.within(0);
    options.on_progress = [&, is_told = false](double done) mutable {
      progress.within(done);
      if (is_told || progress.left() < kLong) return;
      is_told = true;
      progress.note("note: it will take about " + to_text(progress.left()) +
                    "; a smaller batch (--set train.batch=4) or --steps 1 takes less");
    };
    report = verify_plan(session.config, session.plan, data, options);
  }
  tell(notes_summary(report.notes));
  print_result(output, report_document(report), report_text(report));
  return report.ok ? ExitCode::kDone : ExitCode::kVerificationFailed;
}

}  // namespace tessera
