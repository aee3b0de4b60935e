#include "planner/search/sources/stage_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/text/text.h"
#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "planner/presets/stages.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {
namespace {

Graph stage_source_gpt_of(int layers, int64_t vocabulary = 64) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = vocabulary,
                                      .context = 64,
                                      .layers = layers,
                                      .width = 256,
                                      .heads = 4});
  return training_graph(network, {}, 16, 1);
}

/// Two machines whose link is slow: the parameters cannot be summed over it.
Cluster slow_network() {
  return parse_cluster_line("2x2xv100-16g;ib=2Gb");
}

std::vector<Candidate> stage_source_pipelines_for(const Graph& graph, const Cluster& cluster,
                                                  const std::string& fixed = "", int ranks = 4) {
  StageSource source;
  return source({graph, cluster}, constraints_of(ranks, false, fixed), {});
}

TEST(StageSource, MakesPipelinesOfAllRanks) {
  const Graph graph = stage_source_gpt_of(3);
  const std::vector<Candidate> found = stage_source_pipelines_for(graph, slow_network());
  ASSERT_FALSE(found.empty());
  for (const Candidate& candidate : found) {
    EXPECT_EQ(candidate.plan.rank_count(), 4) << candidate.name;
    EXPECT_GE(candidate.plan.meshes.size(), 2U) << candidate.name;
    EXPECT_TRUE(candidate.plan.shardings) << candidate.name;
  }
}

// Of small kernels a step is as long as they are launched, once for each micro-batch.
TEST(StageSource, OfSmallKernelsHasOneMicroBatchAndNoSchedule) {
  const Network network = network_of(
      {.kind = "gpt", .vocabulary = 16, .context = 4, .layers = 2, .width = 8, .heads = 2});
  const Graph graph = training_graph(network, {}, 8, 1);
  const std::vector<Candidate> found =
      stage_source_pipelines_for(graph, parse_cluster_line("2xa100-80g"), "", 2);
  ASSERT_FALSE(found.empty());
  const auto one = std::ranges::find_if(
      found, [](const Candidate& each) { return each.plan.micro_batches == 1; });
  ASSERT_NE(one, found.end());
  EXPECT_EQ(one->plan.schedule, Plan().schedule);
  EXPECT_EQ(one->plan.meshes.size(), 2U);
}

TEST(StageSource, KeepsFixedDegreesMicroBatchesAndSchedule) {
  const Graph graph = stage_source_gpt_of(3);
  for (const char* fixed : {"pp=2", "pp=4,micro_batches=4", "pp=2,tp=2,schedule=zb-h1", "dp=2",
                            "micro_batches=8,schedule=1f1b"}) {
    const PlanConstraints constraints = constraints_of(4, false, fixed);
    const Plan decisions = decisions_of(constraints);
    const std::vector<Candidate> found = stage_source_pipelines_for(graph, slow_network(), fixed);
    ASSERT_FALSE(found.empty()) << fixed;
    for (const Candidate& candidate : found) {
      EXPECT_TRUE(obeys(candidate, constraints)) << fixed << ": " << candidate.name;
      EXPECT_TRUE(!fixes_decision(constraints, "micro_batches") ||
                  candidate.plan.micro_batches == decisions.micro_batches)
          << fixed << ": " << candidate.name;
      EXPECT_TRUE(!fixes_decision(constraints, "schedule") ||
                  candidate.plan.schedule == decisions.schedule)
          << fixed << ": " << candidate.name;
    }
  }
}

/// Is every forward op on the mesh of its stage?
bool is_cut_after(const std::vector<std::string>& names, const Graph& graph,
                  const Candidate& candidate) {
  const std::vector<int> stages = stages_after(graph, names);
  const PlacedGraph placed = placements(graph, candidate.plan);
  int position = 0, found = 0;
  bool are_placed = true;
  for (const Op& op : graph.ops()) {
    if (op.role != Role::kForward) continue;
    const Mesh& mesh = *candidate.plan.meshes.at(stages[position++]).mesh;
    const std::optional<OpId> same = placed.graph.find_op(op.name);
    if (!same) continue;  // a pass has made another op of it
    ++found;
    // Of the first micro-batch a rank has its own number.
    are_placed &= placed.sharded.at(*same).mesh->ranks().front() == mesh.ranks().front();
  }
  return are_placed && 2 * found > position;
}

// blocks.0 is a cut that none of equal work would make.
TEST(StageSource, CutsAfterFixedNamesAndNowhereElse) {
  const Graph graph = stage_source_gpt_of(4);
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"blocks.0"}, {"blocks.0", "blocks.1"}}) {
    const std::vector<Candidate> found =
        stage_source_pipelines_for(graph, slow_network(), "boundaries=" + join(names, "+"));
    ASSERT_FALSE(found.empty());
    for (const Candidate& candidate : found)
      EXPECT_TRUE(is_cut_after(names, graph, candidate)) << candidate.name;
  }
}

TEST(StageSource, OfFixedBoundariesIsTheBestPlanOneThatHasThem) {
  const Graph graph = stage_source_gpt_of(4);
  const Cluster cluster = slow_network();
  const PlanRequest request{graph, cluster};
  const PlanConstraints constraints = constraints_of(4, false, "boundaries=blocks.0");
  Candidate equal{Candidate::Source::kCompared, "equal",
                  preset_plan(parse_preset("pp=2,dp=2"), graph)};
  EXPECT_FALSE(obeys(equal, constraints));
  const PlanSearchResult result =
      find_plan(request, {.constraints = constraints, .compared = {std::move(equal)}});
  ASSERT_TRUE(result.best);
  const Candidate& best = result.candidates[*result.best].candidate;
  EXPECT_TRUE(is_cut_after({"blocks.0"}, graph, best)) << best.name;
  EXPECT_FALSE(is_cut_after({"blocks.1"}, graph, best)) << best.name;
}

TEST(StageSource, MakesNothingWhereStagesAreEqual) {
  const Graph graph = stage_source_gpt_of(4);
  EXPECT_TRUE(stage_source_pipelines_for(graph, slow_network(), "pp=2,stages=equal").empty());
  EXPECT_FALSE(stage_source_pipelines_for(graph, slow_network(), "pp=2,stages=any").empty());
  const PlanConstraints constraints = constraints_of(4, false, "pp=2,stages=equal");
  const Candidate preset{Candidate::Source::kPreset, "pp=2,dp=2",
                         preset_plan(parse_preset("pp=2,dp=2"), graph)};
  EXPECT_TRUE(obeys(preset, constraints));
}

TEST(StageSource, MakesNothingWhereNoPipelineCanBe) {
  const Graph graph = stage_source_gpt_of(1);
  EXPECT_TRUE(stage_source_pipelines_for(graph, slow_network(), "pp=1").empty());
  EXPECT_TRUE(stage_source_pipelines_for(graph, slow_network(), "micro_batches=5").empty());
  EXPECT_TRUE(stage_source_pipelines_for(graph, slow_network(), "pp=2,schedule=zb-v").empty());
  EXPECT_TRUE(stage_source_pipelines_for(graph, slow_network(), "", 1).empty());
}

/// Only a candidate is known, and it needs n bytes more on a rank than there are.
PlanSearchResult lacking(const PlanRequest& request, const Candidate& candidate, Rank rank,
                         Bytes bytes) {
  PlanSearchResult known;
  known.candidates = evaluate(request, {candidate}).evaluated;
  EvaluatedCandidate& only = known.candidates.front();
  RankMemoryNeed& need = only.prediction.memory[rank];
  need.arena += need.capacity - need.all() + bytes;
  return known;
}

TEST(StageSource, SearchesAgainWithLessMemoryOfTheRankThatLackedItThreeTimesAtMost) {
  const Graph graph = stage_source_gpt_of(3);
  const Cluster cluster = slow_network();
  const PlanRequest request{graph, cluster};
  const PlanConstraints constraints = constraints_of(4, false, "schedule=1f1b");
  for (const Rank rank : {0, 1}) {
    const auto needed = [&](const EvaluatedCandidate& each) {
      return each.prediction.memory[rank].allocated();
    };
    StageSource source;
    std::vector<Candidate> found = source(request, constraints, {});
    for (int round = 0; round < 3; ++round) {
      ASSERT_FALSE(found.empty()) << rank << " " << round;
      const Bytes before = needed(evaluate(request, {found.front()}).evaluated.front());
      const PlanSearchResult known = lacking(request, found.front(), rank, Bytes(32 << 10));
      ASSERT_FALSE(known.candidates.front().fits());
      found = source(request, constraints, known);
      for (const EvaluatedCandidate& each : evaluate(request, found).evaluated)
        EXPECT_LT(needed(each), before) << rank << " " << round << ": " << each.candidate.name;
    }
    ASSERT_FALSE(found.empty());
    const PlanSearchResult known = lacking(request, found.front(), rank, Bytes(32 << 10));
    EXPECT_TRUE(source(request, constraints, known).empty());
  }
}

// The estimate of zb-h2 is higher than what its program needs.
TEST(StageSource, FindsAPipelineAgainInTheMemoryThatItNeeds) {
  const Graph graph = stage_source_gpt_of(4);
  for (const char* fixed : {"pp=4,micro_batches=4,schedule=zb-h2", "pp=4,schedule=zb-h1", "pp=2"}) {
    const std::vector<Candidate> found = stage_source_pipelines_for(graph, slow_network(), fixed);
    ASSERT_FALSE(found.empty()) << fixed;
    const Cluster large = slow_network();
    const Evaluations all = evaluate({graph, large}, found);
    ASSERT_FALSE(all.evaluated.empty()) << fixed << ": " << all.unusable.front().reason;
    const EvaluatedCandidate& best = all.evaluated.front();
    Bytes needed{0};
    for (const RankMemoryNeed& need : best.prediction.memory)
      needed = std::max(needed, need.allocated());
    ClusterDescription description = large.description();
    for (DeviceType& type : description.types) type.memory = type.reserve + needed;
    const Cluster small(description);
    const std::vector<Candidate> again = stage_source_pipelines_for(graph, small, fixed);
    Seconds fastest = Seconds(std::numeric_limits<double>::infinity());
    for (const EvaluatedCandidate& each : evaluate({graph, small}, again).evaluated)
      if (each.fits()) fastest = std::min(fastest, each.step());
    EXPECT_LE(fastest, best.step()) << fixed;
  }
}

TEST(StageSource, DoesNotSearchAgainForAPipelineThatWouldNotBeTheBest) {
  const Graph graph = stage_source_gpt_of(3);
  const Cluster cluster = slow_network();
  const PlanRequest request{graph, cluster};
  const PlanConstraints constraints = constraints_of(4, false);
  StageSource source;
  const std::vector<Candidate> found = source(request, constraints, {});
  ASSERT_FALSE(found.empty());
  PlanSearchResult known = lacking(request, found.front(), 0, Bytes(32 << 10));
  EvaluatedCandidate faster = known.candidates.front();
  faster.candidate.name = "faster";
  faster.prediction.memory.clear();  // all that it needs fits
  faster.prediction.step = Seconds(0.9 * faster.step().value());
  known.candidates.insert(known.candidates.begin(), std::move(faster));
  known.best = 0;
  EXPECT_TRUE(source(request, constraints, known).empty());
}

/// The step of the fastest candidate of a source that fits; infinity when there is none.
double fastest(const PlanSearchResult& result, Candidate::Source source) {
  const EvaluatedCandidate* found = result.find(source);
  return found && found->fits() ? found->step().value() : std::numeric_limits<double>::infinity();
}

// 2 micro-batches a stage are the default of presets, and their stages have equal work.
TEST(StageSource, FindsFasterPipelinesThanTheGridOnASlowNetworkAndForAWideVocabulary) {
  struct SlowCase {
    Graph graph;
    Cluster cluster;
  };
  for (const SlowCase& item :
       {SlowCase{stage_source_gpt_of(3), slow_network()},
        SlowCase{stage_source_gpt_of(3, 32768), slow_network()},
        SlowCase{stage_source_gpt_of(5), parse_cluster_line("1x2xv100-16g+1x2xp100;ib=10Gb")}}) {
    const PlanSearchResult result =
        find_plan({item.graph, item.cluster}, {.constraints = constraints_of(4, false)});
    EXPECT_LT(fastest(result, Candidate::Source::kPipeline),
              0.95 * fastest(result, Candidate::Source::kPreset));
  }
}

/// The most that a rank allocates.
Bytes needed_by(const EvaluatedCandidate& candidate) {
  return candidate.prediction.peak_bytes();
}

bool any_fits(const Graph& graph, const Cluster& cluster, const std::string& fixed, int ranks) {
  const Evaluations found =
      evaluate({graph, cluster}, stage_source_pipelines_for(graph, cluster, fixed, ranks));
  return std::ranges::any_of(found.evaluated, &EvaluatedCandidate::fits);
}

TEST(StageSource, ComputesResultsAgainWherePipelinesThatKeepThemDoNotFit) {
  const Graph graph = stage_source_gpt_of(4);
  const Cluster large = parse_cluster_line("2xv100-16g");
  const std::string fixed = "pp=2,micro_batches=4,schedule=1f1b";
  for (const char* word : {"selective", "full"}) {
    const std::string again = fixed + ",recompute=" + word;
    const Evaluations all =
        evaluate({graph, large}, stage_source_pipelines_for(graph, large, again, 2));
    ASSERT_FALSE(all.evaluated.empty()) << word;
    ClusterDescription description = large.description();
    for (DeviceType& type : description.types)
      type.memory = type.reserve + Bytes(needed_by(all.evaluated.front()).value() * 105 / 100);
    const Cluster small(description);
    EXPECT_FALSE(any_fits(graph, small, fixed + ",recompute=none", 2)) << word;
    EXPECT_TRUE(any_fits(graph, small, fixed, 2)) << word;
  }
}

TEST(StageSource, KeepsEverythingWhereThatFits) {
  const Graph graph = stage_source_gpt_of(4);
  const std::vector<Candidate> found = stage_source_pipelines_for(graph, slow_network());
  ASSERT_FALSE(found.empty());
  for (const Candidate& candidate : found)
    EXPECT_EQ(candidate.plan.recompute, Recompute{}) << candidate.name;
}

}  // namespace
}  // namespace tessera
