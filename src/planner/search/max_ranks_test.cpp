// Plans on at most a number of ranks.
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/search/find_plan.h"
#include "planner/search/testing/results.h"

namespace tessera {
namespace {

// Over the slow network of these machines more ranks take longer, and no preset is as fast as what
// the searches find on fewer ranks.
TEST(MaxRanks, TheBestPlanIsAsFastAsThatOfEachNumberOfRanks) {
  const Graph graph = training_graph(network_of({.kind = "gpt",
                                                 .vocabulary = 1009,
                                                 .context = 32,
                                                 .layers = 2,
                                                 .width = 112,
                                                 .heads = 7}),
                                     {}, 10, 1);
  const Cluster cluster = parse_cluster_line("2x2xv100-16g;ib=1Gb");
  const PlanRequest request{graph, cluster};
  const auto result_on = [&](int ranks, bool may_use_fewer) {
    return find_plan(request, {.constraints = constraints_of(ranks, may_use_fewer),
                               .sources_of_fewer = all_searches});
  };
  const PlanSearchResult at_most = result_on(4, true);
  Seconds smallest = at_most.find(Candidate::Source::kOneDevice)->step();
  for (int ranks = 2; ranks <= 4; ++ranks)
    smallest = std::min(smallest, best_of(result_on(ranks, false)).step());
  EXPECT_EQ(best_of(at_most).step(), smallest);
  EXPECT_LT(best_of(at_most).ranks(), 4);
  const PlanSearchResult of_presets = find_plan(request, {.constraints = constraints_of(4, true)});
  EXPECT_LT(smallest, best_of(of_presets).step());
}

}  // namespace
}  // namespace tessera
