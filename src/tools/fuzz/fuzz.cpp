#include "tools/fuzz/fuzz.h"

#include <chrono>

#include "base/error.h"
#include "tools/fuzz/internal/shrink.h"

namespace tessera::fuzz {
namespace {

Seconds since(std::chrono::steady_clock::time_point start) {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

FuzzFinding finding_of(const FuzzCase& given, const CaseFailure& failure,
                       const CaseFaults& faults) {
  FuzzFinding finding{given.seed, failure, shrink_case(given, failure, faults), failure,
                      static_cast<bool>(faults.planner)};
  if (const auto smallest = run_case(finding.smallest, faults))
    finding.smallest_failure = *smallest;
  return finding;
}

}  // namespace

std::string to_text(const FuzzFinding& finding) {
  const std::string seed = std::to_string(finding.seed);
  return "case " + seed + " failed: " + finding.failure.text + "\nrepeat it with: tessera fuzz" +
         (finding.is_planned ? " --planner" : "") + " --cases 1 --seed " + seed +
         "\nits smallest form: " + finding.smallest_failure.text + "\n" + to_text(finding.smallest);
}

FuzzReport run_cases(const FuzzOptions& options) {
  if (options.cases <= 0 && options.minutes <= 0)
    throw UserError("nothing to fuzz: 0 cases and 0 minutes",
                    "a run ends after a number of cases or of minutes",
                    "give --cases N or --minutes M", ExitCode::kUsage);
  const auto start = std::chrono::steady_clock::now();
  FuzzReport report;
  FuzzProgress& total = report.total;
  const auto goes_on = [&] {
    return (options.cases == 0 || total.cases < options.cases) &&
           (options.minutes == 0 || total.time.value() < 60 * options.minutes) &&
           total.failures < options.max_failures;
  };
  CaseFaults faults = options.faults;
  if (options.plans)
    faults.planner = [&](const FuzzCase& given, const Graph& graph) {
      return planned(given, graph, report.planned);
    };
  faults.on_refusal = [&] {
    --total.micro_batched_cases;
    ++total.refused_cases;
  };
  faults.on_scheduled = [&] { ++total.scheduled_cases; };
  faults.on_chunks = [&] { ++total.chunked_cases; };
  faults.on_combined = [&] { ++total.combined_cases; };
  CaseFaults shrunk = options.faults;  // counts nothing
  PlannedCases not_counted;
  if (options.plans)
    shrunk.planner = [&](const FuzzCase& given, const Graph& graph) {
      return planned(given, graph, not_counted);
    };
  while (goes_on()) {
    const FuzzCase given = random_case(options.seed + static_cast<uint64_t>(total.cases));
    for (const Op& op : given.graph.ops()) ++report.operators[op.kind];
    ++total.cases;
    total.exact_cases += given.exact ? 1 : 0;
    total.micro_batched_cases += given.micro_batches > 1 ? 1 : 0;
    if (const auto failure = run_case(given, faults)) {
      ++total.failures;
      if (options.on_failure) options.on_failure(finding_of(given, *failure, shrunk));
    }
    total.time = since(start);
    if (options.on_progress) options.on_progress(total);
  }
  return report;
}

}  // namespace tessera::fuzz
