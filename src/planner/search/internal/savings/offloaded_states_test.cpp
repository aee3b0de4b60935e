#include "planner/search/internal/savings/offloaded_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/search/find_plan.h"
#include "planner/search/testing/results.h"

namespace tessera {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// An MLP whose state of AdamW is half of what two ranks of dp need, for a batch of a few rows.
Graph offloaded_states_small_mlp(OptimizerKind kind) {
  OptimizerConfig optimizer;
  optimizer.kind = kind;
  return training_graph(
      network_of({.kind = "mlp", .vocabulary = 16, .context = 4, .layers = 4, .width = 128}),
      optimizer, 4, 1);
}

Cluster offloaded_states_devices(const std::string& line, Bytes memory) {
  ClusterDescription description = parse_cluster_line(line).description();
  for (DeviceType& type : description.types) {
    type.memory = memory;
    type.reserve = Bytes(0);
  }
  return Cluster(std::move(description));
}

PlanSearchResult offloaded_states_result_for(const Graph& graph, const Cluster& cluster,
                                             const std::string& fixed = "") {
  return find_plan({graph, cluster}, {.constraints = constraints_of(2, false, fixed)});
}

/// The least memory of two devices in which a plan fits whose state is in memory.
Bytes min_memory(const Graph& graph) {
  const PlanSearchResult result =
      find_plan({graph, offloaded_states_devices("cpu:2", Bytes(1024))},
                {.constraints = constraints_of(2, false), .offloads = false});
  return result.candidates.front().fullest.memory.all();
}

Bytes part_of(Bytes bytes, double part) {
  return Bytes(static_cast<int64_t>(part * static_cast<double>(bytes.value())));
}

TEST(OffloadedStates, AreTheBestPlanWhereNothingElseFits) {
  const Graph graph = offloaded_states_small_mlp(OptimizerKind::kAdamW);
  const Cluster cluster = offloaded_states_devices("cpu:2", part_of(min_memory(graph), 0.8));
  const PlanSearchResult result = offloaded_states_result_for(graph, cluster);
  ASSERT_TRUE(result.best);
  const EvaluatedCandidate& best = result.candidates[*result.best];
  EXPECT_THAT(best.candidate.name, HasSubstr("offload=state"));
  EXPECT_THAT(best.candidate.name, HasSubstr("offload_mib="));
  EXPECT_TRUE(best.fits());
  EXPECT_GT(best.fullest.memory.in_file, Bytes(0));
  EXPECT_FALSE(
      find_plan({graph, cluster}, {.constraints = constraints_of(2, false), .offloads = false})
          .best);
}

TEST(OffloadedStates, AreNotTriedWhereAnotherPlanFits) {
  const Graph graph = offloaded_states_small_mlp(OptimizerKind::kAdamW);
  const PlanSearchResult result = offloaded_states_result_for(
      graph, offloaded_states_devices("cpu:2", part_of(min_memory(graph), 1.05)));
  ASSERT_TRUE(result.best);
  EXPECT_THAT(names_of(result), Not(Contains(HasSubstr("offload"))));
}

TEST(OffloadedStates, AreNotTriedWhereThereIsNoneOrItIsRefusedOrFixed) {
  const Graph adamw = offloaded_states_small_mlp(OptimizerKind::kAdamW),
              sgd = offloaded_states_small_mlp(OptimizerKind::kSgd);
  const Bytes little = part_of(min_memory(adamw), 0.8);
  EXPECT_THAT(
      names_of(offloaded_states_result_for(sgd, offloaded_states_devices("cpu:2", Bytes(1024)))),
      Not(Contains(HasSubstr("offload"))));
  EXPECT_THAT(
      names_of(offloaded_states_result_for(adamw, offloaded_states_devices("2xv100-16g", little))),
      Not(Contains(HasSubstr("offload"))));
  EXPECT_FALSE(
      offloaded_states_result_for(adamw, offloaded_states_devices("cpu:2", little), "offload=none")
          .best);
}

// A smaller window is worth a trial where the larger one does not fit.
TEST(OffloadedStates, HaveSmallerWindowsInTheSecondList) {
  const Graph graph = offloaded_states_small_mlp(OptimizerKind::kAdamW);
  const Cluster cluster = offloaded_states_devices("cpu:2", part_of(min_memory(graph), 0.8));
  const PlanConstraints constraints = constraints_of(2, false);
  const PlanSearchResult known =
      find_plan({graph, cluster}, {.constraints = constraints, .offloads = false});
  const auto lists = with_offloaded_states({graph, cluster}, constraints, known);
  ASSERT_EQ(lists.size(), 2U);
  for (const auto& list : lists) {
    EXPECT_FALSE(list.empty());
    EXPECT_LE(list.size(), 4U);
  }
  EXPECT_GT(lists[0].front().plan.offload_window, Bytes(0));
  EXPECT_EQ(lists[1].front().plan.offload_window, Bytes(0));
}

}  // namespace
}  // namespace tessera
