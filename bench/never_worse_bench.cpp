// What the search finds without plans to begin with, beside the plans of configs/plans that are
// made by hand, in simulated steps.
//
//     never_worse_bench [--only TEXT]
//
// A case is a configuration, a cluster, and a number of ranks of which there are plans that fit.
// Printed are the step of the best of these plans, that of the search without presets as a multiple
// of it, and what is found with presets. It runs in the root of the project.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"
#include "planner/search/find_plan.h"
#include "training/config/config.h"
#include "training/engine/graphs.h"
#include "training/engine/run_data.h"

namespace tessera {
namespace {

constexpr const char* kClusters[] = {"8xa100-80g", "cpu:4", "4x1xv100;ib=25Gb"};
constexpr double kUsual = 1.05;  // wanted of 90% of the cases

/// By the number of ranks.
using HandMade = std::map<int, std::vector<Candidate>>;

/// The plans of a configuration for devices that are not emulated, without those of one rank.
HandMade hand_made(const std::string& config) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("configs/plans"))
    if (entry.path().filename().string().starts_with(config + ".")) files.push_back(entry.path());
  std::ranges::sort(files);
  HandMade plans;
  for (const std::filesystem::path& file : files) {
    Plan plan = read_plan(file);
    if (plan.rank_count() < 2 || file.string().find("fake") != std::string::npos) continue;
    plans[plan.rank_count()].push_back(
        {Candidate::Source::kCompared, file.stem().string(), std::move(plan)});
  }
  return plans;
}

struct Tally {
  std::vector<double> ratios;  // of the search alone
  int presets = 0, slower = 0;
};

const EvaluatedCandidate* best_of(const PlanSearchResult& result) {
  return result.best ? &result.candidates[*result.best] : nullptr;
}

double ratio(const EvaluatedCandidate& candidate, const EvaluatedCandidate& other) {
  return candidate.step().value() / other.step().value();
}

void compare(const PlanRequest& request, int ranks, const std::vector<Candidate>& plans,
             const std::string& name, Tally& tally) {
  Evaluations evaluations = evaluate(request, plans);
  std::erase_if(evaluations.evaluated, [](const auto& each) { return !each.fits(); });
  if (evaluations.evaluated.empty()) return;
  const EvaluatedCandidate& by_hand =
      *std::ranges::min_element(evaluations.evaluated, {}, &EvaluatedCandidate::step);
  const PlanConstraints constraints = constraints_of(ranks, false);
  const PlanSearchResult alone =
      find_plan(request, {.constraints = constraints, .tries_presets = false});
  const PlanSearchResult whole = find_plan(request, {.constraints = constraints});
  const EvaluatedCandidate *searched = best_of(alone), *found = best_of(whole);
  if (!searched || !found) {
    fmt::print("{:48} nothing is found\n", name);
    tally.ratios.push_back(1e9);
    return;
  }
  tally.ratios.push_back(ratio(*searched, by_hand));
  tally.presets += found->candidate.source == Candidate::Source::kPreset;
  tally.slower += ratio(*found, by_hand) > 1;
  fmt::print("{:48} {:26} {:10.4f} ms  search {:6.3f}  found {:6.3f} {}\n", name,
             by_hand.candidate.name, 1e3 * by_hand.step().value(), tally.ratios.back(),
             ratio(*found, by_hand), found->candidate.name);
  std::fflush(stdout);
}

void run(const std::filesystem::path& file, const std::string& only, Tally& tally) {
  const std::string config = file.stem().string();
  RunConfig read = read_config_file(file.string(), {}).run;
  set_sizes(read.model, read.data);
  const Graph graph = training_graph(read);
  const HandMade plans = hand_made(config);
  for (const char* line : kClusters) {
    const Cluster cluster = parse_cluster_line(line);
    const PlanRequest request{.graph = graph, .cluster = cluster};
    for (const auto& [ranks, of_ranks] : plans) {
      const std::string name = fmt::format("{} on {} of {}", config, ranks, line);
      if (ranks <= cluster.device_count() && name.find(only) != std::string::npos)
        compare(request, ranks, of_ranks, name, tally);
    }
  }
}

void run_all(const std::string& only) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("configs"))
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  std::ranges::sort(files);
  Tally tally;
  for (const std::filesystem::path& file : files) run(file, only, tally);
  if (tally.ratios.empty()) return;
  const auto usual =
      std::ranges::count_if(tally.ratios, [](double value) { return value <= kUsual; });
  fmt::print(
      "{} cases: the search alone takes at most {} times the best plan made by hand in {} "
      "({:.0f}%), {:.3f} times at worst; with presets {} are slower, and {} results are a "
      "preset\n",
      tally.ratios.size(), kUsual, usual,
      100.0 * static_cast<double>(usual) / static_cast<double>(tally.ratios.size()),
      std::ranges::max(tally.ratios), tally.slower, tally.presets);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const bool is_limited = argc > 2 && std::string(argv[1]) == "--only";
  tessera::run_all(is_limited ? argv[2] : "");
}
