// Plan searches on more than SearchPolicy::many_ranks ranks.
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/pipeline/device_runs.h"
#include "planner/search/answers/axis_levels.h"
#include "planner/search/find_plan.h"
#include "planner/search/sources/stage_source.h"

namespace tessera {
namespace {

Graph many_ranks_gpt_of(int64_t rows) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = 64,
                                      .context = 64,
                                      .layers = 2,
                                      .width = 256,
                                      .heads = 16,
                                      .dropout = 0});
  return training_graph(network, {}, rows, 1);
}

constexpr int kRanks = 128;
constexpr int64_t kRows = 512;

/// 16 machines of eight devices.
Cluster machines(Bytes memory = Bytes(16'000'000'000)) {
  ClusterDescription description = parse_cluster_line("16x8xv100-16g;ib=100Gb").description();
  for (DeviceType& type : description.types) type.memory = memory;
  return Cluster(description);
}

std::vector<Candidate> pipelines_for(const Graph& graph, const Cluster& cluster,
                                     const std::string& fixed) {
  PlanRequest request{graph, cluster};
  request.graph_of_rows = many_ranks_gpt_of;
  StageSource source;
  return source(request, constraints_of(kRanks, false, fixed), {});
}

TEST(ManyRanks, HaveStagesOfOneDivisionOnAllOfThem) {
  const Graph graph = many_ranks_gpt_of(kRows);
  const std::vector<Candidate> found = pipelines_for(graph, machines(), "pp=4");
  ASSERT_FALSE(found.empty());
  for (const Candidate& candidate : found) {
    const Meshes& meshes = candidate.plan.meshes;
    ASSERT_EQ(meshes.size(), 4U) << candidate.name;
    EXPECT_EQ(candidate.plan.rank_count(), kRanks) << candidate.name;
    for (const NamedMesh& mesh : meshes)
      EXPECT_EQ(mesh.mesh->shape(), meshes.front().mesh->shape()) << candidate.name;
  }
}

TEST(ManyRanks, MayHaveOneStage) {
  const Graph graph = many_ranks_gpt_of(kRows);
  const std::vector<Candidate> found =
      pipelines_for(graph, machines(), "pp=1,tp=8,micro_batches=32");
  ASSERT_FALSE(found.empty());
  for (const Candidate& candidate : found)
    EXPECT_EQ(candidate.plan.meshes.size(), 1U) << candidate.name;
}

// 128 micro-batches of four rows: steps of fewer of them stand for the whole one.
TEST(ManyRanks, HaveShorterStepsForManyMicroBatches) {
  const Graph graph = many_ranks_gpt_of(kRows);
  const std::vector<Candidate> found =
      pipelines_for(graph, machines(), "pp=4,tp=8,micro_batches=128");
  ASSERT_FALSE(found.empty());
  for (const Candidate& candidate : found) {
    EXPECT_EQ(candidate.plan.micro_batches, 128) << candidate.name;
    ASSERT_EQ(candidate.shorter.size(), 2U) << candidate.name;
    const std::array<int64_t, 2> counts = shorter_counts(candidate.plan);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(candidate.shorter[i].plan.micro_batches, counts[i]) << candidate.name;
      EXPECT_EQ(batch_rows(*candidate.shorter[i].graph), 4 * counts[i]) << candidate.name;
    }
    EXPECT_FALSE(candidate.estimate) << "tp is in a machine";
  }
}

TEST(ManyRanks, AreEstimatedWhereTensorParallelismCrossesMachines) {
  const Graph graph = many_ranks_gpt_of(kRows);
  const std::vector<Candidate> found =
      pipelines_for(graph, machines(), "pp=4,tp=16,micro_batches=128");
  ASSERT_FALSE(found.empty());
  for (const Candidate& candidate : found) EXPECT_TRUE(candidate.estimate) << candidate.name;
}

TEST(ManyRanks, GetAPlanThatFits) {
  const Graph graph = many_ranks_gpt_of(kRows);
  const Cluster cluster = machines();
  PlanRequest request{graph, cluster};
  request.graph_of_rows = many_ranks_gpt_of;
  const auto source = std::make_shared<StageSource>();
  const PlanSearchResult result = find_plan(
      request,
      {.constraints = constraints_of(kRanks, false, "pp=4,tp=8,micro_batches=128"),
       .sources = {{"", "", [source](const auto&... known) { return (*source)(known...); }}}});
  ASSERT_TRUE(result.best);
  const EvaluatedCandidate& best = result.candidates[*result.best];
  EXPECT_EQ(best.ranks(), kRanks);
  EXPECT_EQ(best.prediction.memory.size(), static_cast<size_t>(kRanks));
  EXPECT_EQ(axis_levels(best.candidate.plan, cluster).size(), 3U);  // dp, tp and pp
}

}  // namespace
}  // namespace tessera
