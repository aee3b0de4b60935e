// Searched plans compute what the serial program computes: one configuration of each kind of
// answer. tests/searched_plans_test.cpp has every configuration on two to four ranks.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "planner/search/sources/placement_source.h"
#include "planner/search/sources/stage_source.h"
#include "test_name.h"
#include "training/engine/engine.h"
#include "training/engine/graphs.h"
#include "training/engine/programs/program_plans.h"
#include "training/verify/verify.h"

namespace tessera::conformance {
namespace {

/// A configuration on a number of ranks, searched for placements or for pipelines.
struct Search {
  std::string model;
  int ranks = 0;
  bool is_for_pipelines = false;
};
std::ostream& operator<<(std::ostream& out, const Search& search) {
  return out << search.model << " on " << search.ranks
             << (search.is_for_pipelines ? " in stages" : "");
}

/// For placements: fast links and slow devices, so that the search divides all it can. For
/// pipelines: slow links.
Cluster cluster_for(const Search& search) {
  if (search.is_for_pipelines) return parse_cluster_line("4x1xv100-16g;ib=1Gb");
  ClusterDescription description = parse_cluster_line("8xv100").description();
  description.types.front().cost.flops_per_second /= 1000;
  description.types.front().cost.bytes_per_second /= 1000;
  return Cluster(description);
}

Plan last_plan(const Search& search, const Graph& graph) {
  const Cluster cluster = cluster_for(search);
  const PlanConstraints constraints = constraints_of(search.ranks, false);
  const std::vector<Candidate> plans = search.is_for_pipelines
                                           ? StageSource()({graph, cluster}, constraints, {})
                                           : PlacementSource()({graph, cluster}, constraints, {});
  Plan plan = plans.at(plans.size() - 1).plan;
  plan.schedule = PipelineKind::kOneForwardOneBackward;  // which fits all stages
  return plan;
}

class SearchedPlan : public testing::TestWithParam<Search> {};

TEST_P(SearchedPlan, ComputesWhatTheSerialProgramComputes) {
  RunConfig config = read_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" /
                                 (GetParam().model + ".toml"));
  set_sizes(config.model, config.data);
  const Graph graph = training_graph(config);
  const TrainingSettings settings = training_settings(config);
  const Plan plan =
      with_other_programs(network_of(config.model), settings, last_plan(GetParam(), graph));
  const auto data =
      std::make_shared<const RunData>(load_data(config.data, {.context = config.model.context}));
  const VerifyReport report = verify_plan(config, plan, data, {.steps = 1});
  EXPECT_TRUE(report.ok) << difference_text(report) << "\n"
                         << reproducer(GetParam().model, settings, plan, graph);
}

// An uneven number of ranks, a recurrence, and attention; stages of attention, and of towers.
INSTANTIATE_TEST_SUITE_P(, SearchedPlan,
                         testing::Values(Search{"mlp", 3}, Search{"gru", 2},
                                         Search{"gpt_markov", 4}, Search{"bert", 3, true},
                                         Search{"two_tower", 2, true}),
                         [](const auto& given) {
                           return test_name(testing::PrintToString(given.param));
                         });

}  // namespace
}  // namespace tessera::conformance
