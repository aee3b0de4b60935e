#include "tools/cli/internal/commands/fuzz.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/file.h"
#include "base/text/count_text.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/run/session.h"
#include "tools/fuzz/fuzz.h"

namespace tessera {
namespace {

constexpr int64_t kCases = 2000;

/// Runs a case from a file, in the form in which a failure prints it.
ExitCode run_one(const std::string& file, const OutputOptions& output) {
  const fuzz::FuzzCase given = fuzz::parse_case(read_file(file));
  fuzz::check_case(given);
  const auto failure = fuzz::run_case(given);
  if (failure && failure->out_of_memory)
    throw UserError("the case '" + file + "' does not fit into memory", failure->text,
                    "make its tensors or meshes smaller", ExitCode::kOutOfMemory);
  Document document;
  document["ok"] = !failure;
  document["failure"] = failure ? Document(failure->text) : Document();
  print_result(
      output, document,
      failure ? failure->text + "\n" : file + ": the results equal those of the serial program\n");
  return failure ? ExitCode::kVerificationFailed : ExitCode::kDone;
}

Document fuzz_document(const fuzz::FuzzReport& report, uint64_t seed) {
  Document document;
  document["ok"] = report.total.failures == 0;
  document["seed"] = static_cast<int64_t>(seed);
  document["cases"] = report.total.cases;
  document["exact_cases"] = report.total.exact_cases;
  document["micro_batched_cases"] = report.total.micro_batched_cases;
  document["refused_cases"] = report.total.refused_cases;
  document["scheduled_cases"] = report.total.scheduled_cases;
  document["chunked_cases"] = report.total.chunked_cases;
  document["combined_cases"] = report.total.combined_cases;
  document["failures"] = report.total.failures;
  document["seconds"] = report.total.time.value();
  document["searched_plans"] = report.planned.searched;
  document["preset_plans"] = report.planned.presets;
  document["serial_plans"] = report.planned.serial;
  document["no_plan_fits"] = report.planned.none;
  document["excluded_candidates"] = report.planned.excluded;
  for (const auto& [name, count] : report.operators) document["operators"][name] = count;
  return document;
}

std::string to_text(const fuzz::FuzzReport& report, uint64_t seed) {
  const fuzz::FuzzProgress& total = report.total;
  const auto last = static_cast<int64_t>(seed) + total.cases - 1;
  std::string text =
      fmt::format("{} random programs (seeds {} to {}) in {}: {}\n", grouped(total.cases), seed,
                  last, to_text(total.time),
                  total.failures == 0 ? "all results equal those of the serial programs"
                                      : counted(total.failures, "failure"));
  text += fmt::format(
      "  {} compared bit for bit; {} with micro-batches; {} could not be split; {} kinds of "
      "operators\n",
      grouped(total.exact_cases), grouped(total.micro_batched_cases), grouped(total.refused_cases),
      report.operators.size());
  const fuzz::PlannedCases& plans = report.planned;
  if (plans.searched + plans.presets + plans.serial + plans.none > 0)
    text += fmt::format(
        "  plans: {} of the search, {} presets, {} serial; for {} no plan fits; {} candidates were "
        "excluded\n",
        grouped(plans.searched), grouped(plans.presets), grouped(plans.serial), grouped(plans.none),
        grouped(plans.excluded));
  return text;
}

}  // namespace

void FuzzCommand::describe(OptionParser& parser) {
  parser.optional_argument("CASE",
                           "A case in a file, as a failure prints it; default: random cases", file);
  parser.number(
      {"--cases", "N", "Random programs to run; default: 2000, or as many as --minutes allows"},
      cases, int64_t{1});
  parser.number({"--seed", "N", "Seed of the first case; the next case has the next number"}, seed,
                uint64_t{0});
  parser.real({"--minutes", "X", "Stop after this time"}, minutes, 0);
  parser.flag(
      {"--planner", "", "Run each program under the plan that is found for it on a random cluster"},
      planner);
  add_options(parser, output);
}

ExitCode FuzzCommand::run(Processes&) {
  if (!file.empty()) return run_one(file, output);
  fuzz::FuzzOptions options;
  options.cases = cases.value_or(minutes > 0 ? 0 : kCases);
  options.minutes = minutes;
  options.plans = planner;
  options.seed = seed;
  options.on_failure = [](const fuzz::FuzzFinding& finding) {
    tell(fuzz::to_text(finding) + "\n");
  };
  options.on_progress = [](const fuzz::FuzzProgress& progress) {
    if (progress.cases % 10000 == 0)
      tell(fmt::format("{} cases, {} failures\n", grouped(progress.cases), progress.failures));
  };
  const fuzz::FuzzReport report = fuzz::run_cases(options);
  print_result(output, fuzz_document(report, options.seed), to_text(report, options.seed));
  return report.total.failures == 0 ? ExitCode::kDone : ExitCode::kVerificationFailed;
}

}  // namespace tessera
