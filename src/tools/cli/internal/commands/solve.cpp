#include "tools/cli/internal/commands/solve.h"

#include <fmt/format.h>

#include <chrono>

#include "base/files/document.h"
#include "base/solver/contest_file.h"
#include "base/solver/solve.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/run/session.h"
#include "tools/launch/stop_signals.h"

namespace tessera {
namespace {

using solver::Wide;

std::string digits(const std::optional<Wide>& number) {
  return number ? solver::to_text(*number) : "none";
}

Document json_digits(const std::optional<Wide>& number) {
  return number ? Document(solver::to_text(*number)) : Document();
}

/// (cost - bound) / cost
double gap_of(const std::optional<Wide>& cost, const std::optional<Wide>& bound) {
  if (!cost || !bound) return 1;
  return *cost == *bound ? 0 : static_cast<double>(*cost - *bound) / static_cast<double>(*cost);
}

/// "memory binds at 3 moments: 17, 20, 41": the first few of them.
std::string binding_text(const std::vector<solver::Moment>& moments) {
  constexpr size_t kMaxShown = 4;
  if (moments.empty()) return "memory binds nowhere";
  std::vector<std::string> shown;
  for (const solver::Moment moment : moments)
    if (shown.size() < kMaxShown) shown.push_back(std::to_string(moment));
  return fmt::format("memory binds at {}: {}{}", counted(std::ssize(moments), "moment"),
                     join(shown, ", "), moments.size() > kMaxShown ? ", ..." : "");
}

std::string line_of(const solver::Improvement& improvement) {
  const std::string gap =
      improvement.cost && improvement.bound
          ? fmt::format("{:.4f}%", 100 * gap_of(improvement.cost, improvement.bound))
          : std::string("unknown");
  return fmt::format("{:8.2f} s  cost {}  bound {}  gap {}  {}", improvement.at.value(),
                     digits(improvement.cost), digits(improvement.bound), gap,
                     binding_text(improvement.binding));
}

Document answer_document(const solver::Problem& problem, const solver::Answer& answer,
                         double seconds) {
  Document document;
  document["cost"] = json_digits(answer.cost);
  document["bound"] = json_digits(answer.bound);
  document["optimal"] = answer.proof == solver::Proof::kOptimal;
  document["infeasible"] = answer.proof == solver::Proof::kInfeasible;
  document["gap"] =
      answer.cost && answer.bound ? Document(gap_of(answer.cost, answer.bound)) : Document();
  document["proved"] = answer.proved;
  document["seconds_to_best"] = answer.to_best.value();
  document["seconds"] = seconds;
  document["nodes"] = int64_t{problem.nodes()};
  document["edges"] = int64_t{problem.edges()};
  document["binding_moments"] = Document::List{};
  if (!answer.trace.empty())
    for (const solver::Moment moment : answer.trace.back().binding)
      document["binding_moments"].append(moment);
  document["trace"] = Document::List{};
  for (const solver::Improvement& improvement : answer.trace) {
    Document entry;
    entry["seconds"] = improvement.at.value();
    entry["cost"] = json_digits(improvement.cost);
    entry["bound"] = json_digits(improvement.bound);
    document["trace"].append(std::move(entry));
  }
  document["assignment"] = Document::List{};
  if (!answer.assignment) return document;
  for (const int32_t strategy : *answer.assignment)
    document["assignment"].append(int64_t{strategy});
  return document;
}

std::string to_text(const solver::Problem& problem, const solver::Answer& answer, double seconds) {
  std::string text = fmt::format("{} nodes, {} edges, {:.2f} s\n", grouped(problem.nodes()),
                                 grouped(problem.edges()), seconds);
  text += fmt::format("  cost    {}\n  bound   {}\n", digits(answer.cost), digits(answer.bound));
  if (answer.cost && answer.bound)
    text += fmt::format("  gap     {:.4f}%\n", 100 * gap_of(answer.cost, answer.bound));
  return text + fmt::format("  proved  {}\n", answer.proved);
}

}  // namespace

void SolveCommand::describe(OptionParser& parser) {
  parser.argument("PROBLEM", "A problem in the contest's format, .json or .json.gz", file);
  parser.real({"--time-limit", "S", "Seconds, including reading the file; default: 60"}, time_limit,
              0);
  parser.number(
      {"--work", "N",
       "Millions of table entries to compute, instead of a time limit: the answer is then "
       "the same on any number of threads"},
      work, int64_t{1});
  parser.number({"--threads", "N", "Default: 2"}, threads, 1);
  parser.number({"--seed", "N", "Seed of the random numbers; default: 1"}, seed, uint64_t{0});
  add_options(parser, output);
}

ExitCode SolveCommand::run(Processes&) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto seconds = [start] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  StopSignals signals;
  const solver::Problem problem = solver::read_problem(file);
  const double reading = seconds();
  solver::SolveOptions options;
  options.time_limit = Seconds(time_limit - reading);
  options.work = work;
  options.threads = threads.value_or(options.threads);
  options.seed = seed;
  options.cancel = [&signals] { return signals.received().has_value(); };
  double last = -1;
  options.on_improvement = [&last](const solver::Improvement& improvement) {
    // Early improvements come in dozens.
    if (improvement.at.value() < last + 0.5 && improvement.cost != improvement.bound) return;
    last = improvement.at.value();
    tell(line_of(improvement) + "\n");
  };
  tell(fmt::format("{}: {} nodes, {} edges, read in {:.2f} s", file, grouped(problem.nodes()),
                   grouped(problem.edges()), reading) +
       "\n");
  solver::Answer answer = solver::solve(problem, options);
  answer.to_best += Seconds(reading);
  print_result(output, answer_document(problem, answer, seconds()),
               to_text(problem, answer, seconds()));
  if (answer.proof == solver::Proof::kInfeasible) return ExitCode::kNoPlan;
  return answer.assignment ? ExitCode::kDone : ExitCode::kFailure;
}

}  // namespace tessera
