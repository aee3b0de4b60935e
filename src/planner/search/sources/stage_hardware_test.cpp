#include "planner/search/sources/stage_hardware.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/pipeline/stage_program.h"
#include "planner/search/find_plan.h"

namespace tessera {
namespace {

Graph narrow_gpt(int layers) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = 64,
                                      .context = 32,
                                      .layers = layers,
                                      .width = 64,
                                      .heads = 4,
                                      .dropout = 0});
  return training_graph(network, {}, 8, 1);
}

/// The devices 0 and 1 are V100, the others P100.
Cluster different_machines() {
  return parse_cluster_line("1x2xv100-16g+1x2xp100;ib=100Gb");
}

PlanConstraints wanted(const std::string& fixed, int ranks = 4) {
  return constraints_of(ranks, false, fixed);
}

TEST(StageHardware, WhatEveryDeviceMeetsIsNoConstraint) {
  const Graph graph = narrow_gpt(2);
  const PlanConstraints constraints = with_hardware_of(
      different_machines(), graph, wanted("micro_batches=4,stage_hardware=blocks.0:gpu"));
  EXPECT_TRUE(constraints.hardware.empty());
  EXPECT_EQ(constraints.decisions, "micro_batches=4");
  const PlanConstraints one = with_hardware_of(different_machines(), graph,
                                               wanted("stage_hardware=blocks.0:gpu+blocks.1:p100"));
  EXPECT_EQ(one.hardware, (std::vector<StageHardware>{{"blocks.1", "p100"}}));
  EXPECT_EQ(one.decisions, "stage_hardware=blocks.1:p100");
}

TEST(StageHardware, WhatNoClusterLikeThisCanHaveIsRefused) {
  const Graph graph = narrow_gpt(2);
  for (const char* fixed : {"stage_hardware=blocks.7:v100-16g", "stage_hardware=blocks.0:a100-80g",
                            "stage_hardware=blocks.0:npu", "tp=4,stage_hardware=blocks.0:v100-16g"})
    EXPECT_THROW(with_hardware_of(different_machines(), graph, wanted(fixed)), UserError) << fixed;
}

TEST(StageHardware, TheTypesAreTriedInEveryOrder) {
  const Cluster cluster = different_machines();
  EXPECT_EQ(stage_deployments(cluster, wanted("")).size(), 1U) << "without wanted devices";
  const std::vector<Deployment> list =
      stage_deployments(cluster, wanted("stage_hardware=blocks.0:p100"));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].device_of_rank, (std::vector<DeviceId>{0, 1, 2, 3}));
  EXPECT_EQ(list[1].device_of_rank, (std::vector<DeviceId>{2, 3, 0, 1}));
}

TEST(StageHardware, AStageEndsBeforeAUnitThatMayNotBeThere) {
  const std::vector<UnitRanks> allowed{{3, {true, true, false, false}}};
  EXPECT_EQ(last_end(allowed, 0, 0, 2, 8), 8) << "all ranks are allowed";
  EXPECT_EQ(last_end(allowed, 0, 1, 2, 8), 3) << "one is not";
  EXPECT_EQ(last_end(allowed, 3, 2, 2, 8), 3) << "no unit fits";
  EXPECT_EQ(last_end(allowed, 4, 2, 2, 8), 8) << "after it";
}

/// The types of the devices on which a plan computes the ops of a scope.
std::set<std::string> types_of(const std::string& scope, const Graph& graph, const Cluster& cluster,
                               const Plan& plan) {
  const PlacedGraph placed = placements(graph, plan);
  const Deployment deployment = identity_mapping(cluster, plan.hardware());
  std::set<std::string> types;
  for (int i = 0; i < std::ssize(placed.graph.ops()); ++i) {
    const Op& op = placed.graph.op({i});
    if (op.role != Role::kForward || !op.name.starts_with(scope + ".")) continue;
    for (const Rank rank : plan.placed().at(placed.sharded.stages.ops[i]).mesh->ranks())
      types.insert(deployment.type(rank).name);
  }
  return types;
}

// The first layer runs on the devices of the first machine unless another order of the devices is
// tried, and the last one on those of the last machine.
TEST(StageHardware, TheBestPlanHasTheLayerOnTheWantedDevices) {
  const Graph graph = narrow_gpt(4);
  const Cluster cluster = different_machines();
  for (const char* fixed : {"stage_hardware=blocks.0:p100", "stage_hardware=blocks.3:v100-16g",
                            "pp=2,stage_hardware=blocks.0:p100+blocks.3:v100-16g"}) {
    const PlanConstraints constraints = with_hardware_of(cluster, graph, wanted(fixed));
    const PlanSearchResult result = find_plan({graph, cluster}, {.constraints = constraints});
    ASSERT_TRUE(result.best) << fixed;
    for (const EvaluatedCandidate& each : result.candidates) {
      if (!obeys(each.candidate, constraints)) continue;
      for (const StageHardware& hardware : constraints.hardware)
        EXPECT_EQ(types_of(hardware.name, graph, cluster, each.candidate.plan),
                  std::set<std::string>{hardware.hardware})
            << fixed << ": " << each.candidate.name;
    }
  }
}

TEST(StageHardware, ThePipelinesOfTheSearchHaveTheLayerOnTheWantedDevices) {
  const Graph graph = narrow_gpt(4);
  const Cluster cluster = different_machines();
  const PlanConstraints constraints =
      with_hardware_of(cluster, graph, wanted("stage_hardware=blocks.0:p100"));
  const PlanSearchResult result =
      find_plan({graph, cluster}, {.constraints = constraints, .tries_presets = false});
  ASSERT_TRUE(result.best);
  const Candidate& best = result.candidates[*result.best].candidate;
  EXPECT_EQ(best.source, Candidate::Source::kPipeline);
  EXPECT_EQ(types_of("blocks.0", graph, cluster, best.plan), std::set<std::string>{"p100"});
}

}  // namespace
}  // namespace tessera
