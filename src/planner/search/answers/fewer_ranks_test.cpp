#include "planner/search/answers/fewer_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> names(const PlanConstraints& constraints) {
  const Graph graph = training_graph(
      network_of({.kind = "mlp", .context = 8, .layers = 2, .width = 64}), {}, 48, 1);
  const Cluster cluster = parse_cluster_line("cpu:12");
  std::vector<std::string> list;
  for (const Candidate& candidate : presets_on_fewer_ranks({graph, cluster}, constraints, {}))
    list.push_back(candidate.name);
  std::ranges::sort(list);
  return list;
}

TEST(FewerRanks, AreTheTwoLargestProperDivisors) {
  EXPECT_THAT(names(constraints_of(8, false)), ElementsAre("dp=2", "dp=4", "tp=2", "tp=4"));
  EXPECT_THAT(names(constraints_of(6, false)), ElementsAre("dp=2", "dp=3", "tp=2", "tp=3"));
  EXPECT_THAT(names(constraints_of(2, false)), IsEmpty()) << "one device is always compared";
  EXPECT_THAT(names(constraints_of(7, false)), IsEmpty());
}

TEST(FewerRanks, AreNotTriedWhereTheyAreAllowedOrSomethingIsFixed) {
  EXPECT_THAT(names(constraints_of(8, true)), IsEmpty());
  EXPECT_THAT(names(constraints_of(8, false, "tp=2")), IsEmpty());
}

TEST(FewerRanks, AreNeverTheBestPlan) {
  // Two rows of work and links of 1 MB/s: the fewer ranks the better.
  const Graph graph =
      training_graph(network_of({.kind = "mlp", .context = 8, .layers = 2, .width = 64}), {}, 4, 1);
  ClusterDescription slow = parse_cluster_line("cpu:4").description();
  slow.machines.front().levels.front().level.link = {Seconds(0.1), 1e6};
  const Cluster cluster(slow);
  PlanSearchOptions options{.constraints = constraints_of(4, false)};
  options.sources = {{"", "", presets_on_fewer_ranks}};
  const PlanSearchResult result = find_plan({graph, cluster}, options);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.candidates[*result.best].ranks(), 4);
  const auto fewer = std::ranges::find(result.candidates, 2, &EvaluatedCandidate::ranks);
  ASSERT_NE(fewer, result.candidates.end());
  EXPECT_LT(fewer->step(), result.candidates[*result.best].step());
}

}  // namespace
}  // namespace tessera
