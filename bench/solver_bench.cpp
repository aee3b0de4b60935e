// The solver on the public instances of the ASPLOS 2025 contest, with the published results. The
// instances are not part of the project: they are searched in the folder TESSERA_IOPDDL, otherwise
// in shared/data/iopddl beside the project.
//
//   ./dev bench solver [SECONDS [SEEDS [THREADS [INSTANCES]]]]
//
// The defaults are 60 seconds per instance, 1 seed, 2 threads, all instances ("KMS": three).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/solver/contest_file.h"
#include "base/solver/solve.h"

namespace tessera::solver {
namespace {

/// The contest's results, and the least cost and the largest bound that are published.
struct Published {
  const char* instance;
  double contest, best, bound;
};

constexpr Published kPublished[] = {
    {"A", 6548641531, 6548553650, 6513812172},
    {"B", 532843, 532843, 532843},
    {"G", 217039, 217039, 216933},
    {"K", 2274276676, 2242635784, 2065623588},
    {"M", 49928460991, 49928157537, 49429153686},
    {"S", 1534613444, 1511377982, 1511240135},
    {"V", 1632051, 1617084, 1617084},
};

std::filesystem::path folder_of_instances() {
  if (const char* named = std::getenv("TESSERA_IOPDDL")) return named;
  for (const char* folder : {"../shared/data/iopddl", "../../shared/data/iopddl"})
    if (std::filesystem::exists(folder)) return folder;
  return "";
}

/// Times in seconds since the start of reading, except `first`, which is since the end of reading.
struct Run {
  double cost = 0, bound = 0, reading = 0, first = 0, near = 0, to_best = 0, total = 0;
  bool optimal = false;
};

/// The time at which the cost was first within 5% of the last one.
double time_near_the_end(const Answer& answer) {
  for (const Improvement& improvement : answer.trace)
    if (improvement.cost &&
        static_cast<double>(*improvement.cost) <= 1.05 * static_cast<double>(*answer.cost))
      return improvement.at.value();
  return 1e30;
}

Run run(const std::filesystem::path& file, double seconds, uint64_t seed, int threads) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto now = [start] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const Problem problem = read_problem(file);
  Run result;
  result.reading = now();
  SolveOptions options;
  options.time_limit = Seconds(seconds - result.reading);
  options.seed = seed;
  options.threads = threads;
  options.on_improvement = [&](const Improvement& improvement) {
    if (improvement.cost && result.first == 0) result.first = improvement.at.value();
  };
  const Answer answer = solve(problem, options);
  result.cost = answer.cost ? static_cast<double>(*answer.cost) : 1e30;
  result.bound = answer.bound ? static_cast<double>(*answer.bound) : 0;
  result.near = answer.cost ? result.reading + time_near_the_end(answer) : 1e30;
  result.to_best = result.reading + answer.to_best.value();
  result.total = now();
  result.optimal = answer.proof == Proof::kOptimal;
  return result;
}

double median_of(std::vector<Run> runs, double Run::* figure) {
  std::ranges::sort(runs, {}, figure);
  return runs[runs.size() / 2].*figure;
}

int main_of(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 60;
  const int seeds = argc > 2 ? std::atoi(argv[2]) : 1;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 2;
  const std::string_view chosen = argc > 4 ? argv[4] : "";
  const std::filesystem::path folder = folder_of_instances();
  if (folder.empty()) {
    std::puts("the contest's instances are not here: set TESSERA_IOPDDL to their folder");
    return 0;
  }
  std::puts(fmt::format("{:.0f} s an instance, reading included, {} threads, median of {} seeds",
                        seconds, threads, seeds)
                .c_str());
  std::puts(
      "| instance | cost | over best known | bound | gap | proved | reading s | first answer s "
      "later | within 5% s | best s | total s | "
      "contest over best | published bound |");
  std::puts("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
  for (const Published& published : kPublished) {
    if (!chosen.empty() && chosen.find(published.instance) == std::string_view::npos) continue;
    const std::filesystem::path file =
        folder / fmt::format("asplos-2025-iopddl-{}.json.gz", published.instance);
    if (!std::filesystem::exists(file)) continue;
    std::vector<Run> runs;
    for (int seed = 1; seed <= seeds; ++seed)
      runs.push_back(run(file, seconds, static_cast<uint64_t>(seed), threads));
    std::ranges::sort(runs, {}, &Run::cost);
    const Run& median = runs[runs.size() / 2];
    std::puts(fmt::format("| {} | {:.0f} | {:+.4f}% | {:.0f} | {:.4f}% | {} | {:.1f} | {:.1f} | "
                          "{:.1f} | {:.1f} | {:.1f} | {:+.4f}% | {:.0f} |",
                          published.instance, median.cost, 100 * (median.cost / published.best - 1),
                          median.bound, 100 * (1 - median.bound / median.cost),
                          median.optimal ? "yes" : "no", median_of(runs, &Run::reading),
                          median_of(runs, &Run::first), median_of(runs, &Run::near), median.to_best,
                          median.total, 100 * (published.contest / published.best - 1),
                          published.bound)
                  .c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tessera::solver

int main(int argc, char** argv) {
  return tessera::solver::main_of(argc, argv);
}
