#include "planner/search/answers/axis_levels.h"

#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"

namespace tessera {
namespace {

NamedMesh stage(const std::string& name, Shape shape, std::vector<std::string> axes,
                std::vector<Rank> ranks) {
  return {name, std::make_shared<const Mesh>(std::move(shape), std::move(axes), std::move(ranks))};
}

Plan of_meshes(Meshes meshes) {
  Plan plan;
  plan.meshes = std::move(meshes);
  return plan;
}

Cluster two_machines() {
  return parse_cluster_line("2x4xa100-80g");
}

TEST(AxisLevels, OfTensorParallelismInMachinesAndDataParallelismAcrossThem) {
  const Plan plan = of_meshes({stage("all", {2, 4}, {"dp", "tp"}, {0, 1, 2, 3, 4, 5, 6, 7})});
  EXPECT_EQ(to_text(axis_levels(plan, two_machines())), "dp on network; tp on nvlink");
}

// A stage in each machine, and two stages in each machine.
TEST(AxisLevels, OfStagesAreThoseBetweenRanksOfOnePlace) {
  const Plan apart =
      of_meshes({stage("a", {4}, {"tp"}, {0, 1, 2, 3}), stage("b", {4}, {"tp"}, {4, 5, 6, 7})});
  EXPECT_EQ(to_text(axis_levels(apart, two_machines())), "tp on nvlink; pp on network");
  const Plan inside = of_meshes({stage("a", {2, 2}, {"dp", "tp"}, {0, 1, 4, 5}),
                                 stage("b", {2, 2}, {"dp", "tp"}, {2, 3, 6, 7})});
  EXPECT_EQ(to_text(axis_levels(inside, two_machines())),
            "dp on network; tp on nvlink; pp on nvlink");
}

// Four neighbours in one machine, and one pair between the machines.
TEST(AxisLevels, HaveTheLevelOfMostBandwidthFirst) {
  const Plan plan = of_meshes({stage("all", {8}, {"tp"}, {0, 1, 2, 3, 4, 5, 6, 7})});
  EXPECT_EQ(axis_levels(plan, two_machines()),
            (std::vector<AxisLevels>{{"tp", {"nvlink", "network"}}}));
}

TEST(AxisLevels, OfOneRankAreNone) {
  EXPECT_TRUE(axis_levels(Plan(), two_machines()).empty());
}

}  // namespace
}  // namespace tessera
