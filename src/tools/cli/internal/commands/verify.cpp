#include "tools/cli/internal/commands/verify.h"

#include <fmt/format.h>

#include <iostream>

#include "base/text/count_text.h"
#include "tools/cli/internal/print/plan/notes.h"
#include "tools/cli/internal/print/progress.h"
#include "tools/cli/internal/print/verify_report.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {
namespace {

constexpr Seconds kLong{60};

}  // namespace

void VerifyCommand::describe(OptionParser& parser) {
  add_options(parser, config);
  add_options(parser, config.automatic);
  add_options(parser, liveness);
  parser.number({"--steps", "N", "Steps to compare; default: 3"}, steps, int64_t{1});
  add_options(parser, compilation);
  add_options(parser, output);
}

int VerifyCommand::rank_count() const {
  return open_session(config).plan.rank_count();
}

ExitCode VerifyCommand::run(Processes& processes) {
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
  std::cerr << fmt::format("verify {}: {} against the serial program, {}\n", config.file,
                           plan_summary(session.plan), counted(options.steps, "step"));
  std::cerr << left_out_note(session.config.data, *data);
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
  std::cerr << notes_summary(report.notes);
  print_result(output, report_document(report), report_text(report));
  return report.ok ? ExitCode::kDone : ExitCode::kVerificationFailed;
}

}  // namespace tessera
