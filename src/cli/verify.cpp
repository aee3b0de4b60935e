#include <fmt/format.h>

#include <iostream>

#include "cli/commands.h"
#include "cli/print/progress.h"
#include "cli/print/text_table.h"
#include "cli/print/verify_report.h"
#include "cli/run/session.h"

namespace tessera {

ExitCode run_verify(const Arguments& arguments) {
  Session session = open_session(arguments);
  const auto data = load_data_of(session.config);
  VerifyOptions options;
  if (arguments.steps) options.steps = *arguments.steps;
  std::cerr << fmt::format("verify {}: {} against the serial program, {}\n", arguments.file,
                           describe(session.plan), counted(options.steps, "step"));
  VerifyReport report;
  {
    Progress progress(options.steps);
    options.on_step = [&, done = int64_t{0}](int64_t) mutable { progress.step(++done); };
    report = verify_plan(session.config, session.plan, data, options);
  }
  print_result(arguments, report_document(report), report_text(report));
  return report.ok ? ExitCode::kDone : ExitCode::kVerificationFailed;
}

}  // namespace tessera
