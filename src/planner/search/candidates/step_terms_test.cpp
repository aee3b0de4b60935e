#include "planner/search/candidates/step_terms.h"

#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

/// A candidate on one mesh whose ranks wait 1 s for exchanges over each of these axes.
EvaluatedCandidate waiting_for(const Mesh& mesh, const std::vector<std::string>& exchanges) {
  EvaluatedCandidate candidate;
  candidate.candidate.plan.meshes = one_mesh(std::make_shared<const Mesh>(mesh));
  candidate.parts.compute = Seconds(5);
  candidate.parts.idle = Seconds(7);
  for (const std::string& axes : exchanges) candidate.parts.exposed[axes] = Seconds(1);
  return candidate;
}

TEST(StepTerms, AnAxisIsBetweenMachinesWhenAGroupOfItIs) {
  const Cluster cluster = parse_cluster_line("2x4xa100-80g;ib=100Gb");
  // dp=2 x tp=4: the groups of tp are the machines. dp=4 x tp=2: two ranks of dp in each machine.
  const StepTerms outer =
      step_terms(cluster, waiting_for(parse_mesh("dp=2 tp=4"), {"dp", "tp", "dp,tp"}));
  EXPECT_EQ(outer.between_machines, Seconds(2)) << "dp, and dp with tp";
  EXPECT_EQ(outer.within_machines, Seconds(1));
  const StepTerms inner = step_terms(cluster, waiting_for(parse_mesh("dp=8"), {"dp"}));
  EXPECT_EQ(inner.between_machines, Seconds(1));
  EXPECT_EQ(inner.within_machines, Seconds(0));
}

TEST(StepTerms, NamesOfAxesDoNotCount) {
  const Cluster cluster = parse_cluster_line("2x4xa100-80g;ib=100Gb");
  const StepTerms one = step_terms(cluster, waiting_for(parse_mesh("dp=2 tp=4"), {"dp"}));
  const StepTerms two = step_terms(cluster, waiting_for(parse_mesh("x=2 y=4"), {"x"}));
  EXPECT_EQ(one.between_machines, two.between_machines);
  EXPECT_EQ(one.within_machines, two.within_machines);
}

TEST(StepTerms, OneMachineHasNoExchangesBetweenMachines) {
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  const StepTerms terms =
      step_terms(cluster, waiting_for(parse_mesh("dp=2 tp=4"), {"dp", "tp", "dp,tp"}));
  EXPECT_EQ(terms.within_machines, Seconds(3));
  EXPECT_EQ(terms.between_machines, Seconds(0));
  EXPECT_EQ(terms.compute, Seconds(5));
  EXPECT_EQ(terms.idle, Seconds(7));
}

TEST(StepTerms, StagesOnTwoMachinesExchangeBetweenThem) {
  EvaluatedCandidate candidate = waiting_for(parse_mesh("dp=4"), {"", "dp"});
  const auto stage = [](std::vector<Rank> ranks) {
    return std::make_shared<const Mesh>(Shape{4}, std::vector<std::string>{"dp"}, std::move(ranks));
  };
  candidate.candidate.plan.meshes = {{"first", stage({0, 1, 2, 3})}, {"last", stage({4, 5, 6, 7})}};
  const StepTerms two = step_terms(parse_cluster_line("2x4xa100-80g;ib=100Gb"), candidate);
  EXPECT_EQ(two.between_machines, Seconds(1)) << "dp is inside of a machine";
  const StepTerms one = step_terms(parse_cluster_line("8xa100-80g"), candidate);
  EXPECT_EQ(one.between_machines, Seconds(0));
}

}  // namespace
}  // namespace tessera
