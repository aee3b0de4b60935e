#include "planner/search/internal/answers/stage_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "planner/search/answers/moved_boundaries.h"
#include "planner/search/internal/candidates/candidate.h"

namespace tessera {
namespace {

Graph gpt_of(int layers) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = 64,
                                      .context = 32,
                                      .layers = layers,
                                      .width = 64,
                                      .heads = 4,
                                      .dropout = 0});
  return training_graph(network, {}, 8, 1);
}

/// A preset that is compiled and simulated.
struct SimulatedPlan {
  SimulatedPlan(const Graph& graph, const Cluster& cluster, const std::string& text)
      : request{graph, cluster} {
    Candidate candidate{Candidate::Source::kPreset, text, preset_plan(parse_preset(text), graph)};
    candidate.zero = parse_preset(text).zero;
    Plan plan = candidate.plan;
    compiled = compile_on(request, plan);
    found = std::move(evaluate(request, {std::move(candidate)}).evaluated.at(0));
  }

  std::vector<StageRow> rows() const {
    return stage_rows(compiled, found.candidate.plan, found.prediction);
  }

  PlanRequest request;
  Compiled compiled;
  EvaluatedCandidate found;
};

TEST(StageRows, OfAPlanOnOneMeshThereAreNone) {
  const Graph graph = gpt_of(1);
  const Cluster cluster = parse_cluster_line("2xv100-16g");
  EXPECT_TRUE(SimulatedPlan(graph, cluster, "dp=2").rows().empty());
}

TEST(StageRows, AScopeStandsForItsOpsWhereOneStageHasThemAll) {
  const Graph graph = gpt_of(2);
  const Cluster cluster = parse_cluster_line("4xv100-16g");
  const std::vector<StageRow> whole =
      SimulatedPlan(graph, cluster, "pp=2,dp=2,boundaries=blocks.0").rows();
  ASSERT_EQ(whole.size(), 2U);
  EXPECT_EQ(whole[0].name, "stage0");
  EXPECT_EQ(whole[0].ranks, (std::vector<Rank>{0, 1}));
  EXPECT_EQ(whole[1].ranks, (std::vector<Rank>{2, 3}));
  EXPECT_EQ(whole[0].modules, (std::vector<ModuleRun>{{"tokens", "blocks.0"}}));
  EXPECT_EQ(whole[1].modules, (std::vector<ModuleRun>{{"blocks.1", "loss"}}));
  // The attention of blocks.1 and its ffn are in two stages.
  const std::vector<StageRow> parted =
      SimulatedPlan(graph, cluster, "pp=2,dp=2,boundaries=blocks.1.attn").rows();
  EXPECT_EQ(parted[0].modules.at(0).last, "blocks.1.attn");
  EXPECT_EQ(parted[1].modules.at(0).first, "blocks.1.residual1");
}

TEST(StageRows, TheTimesOfTheMicroBatchesAndWhatIsDoneOnceAreThoseOfTheKernels) {
  const Graph graph = gpt_of(2);
  const Cluster cluster = parse_cluster_line("2xv100-16g");
  const SimulatedPlan run(graph, cluster, "pp=2,micro_batches=4");
  for (const StageRow& row : run.rows()) {
    ASSERT_TRUE(row.forward && row.backward) << row.name;
    EXPECT_NEAR(row.compute + row.exposed + row.idle, 1, 1e-6) << row.name;
    const RankBreakdown& rank = run.found.prediction.ranks.at(row.ranks.front());
    ASSERT_EQ(rank.passes.size(), 1U);
    const Seconds once = rank.passes.begin()->second.once;
    EXPECT_GT(once, Seconds(0)) << "the optimizer";
    // Times are in nanoseconds.
    EXPECT_NEAR(4 * (row.forward->value() + row.backward->value()) + once.value(),
                rank.compute.value(), 1e-8)
        << row.name;
    EXPECT_EQ(row.memory.all(), run.found.prediction.memory.at(row.ranks.front()).all());
  }
}

TEST(StageRows, TwoStagesOnEqualRanksAreOneRow) {
  const Graph graph = gpt_of(4);
  const Cluster cluster = parse_cluster_line("2xv100-16g");
  const std::vector<StageRow> rows =
      SimulatedPlan(graph, cluster, "pp=2,micro_batches=4,schedule=zb-v").rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].stages, (std::vector<size_t>{0, 3})) << "a V";
  EXPECT_EQ(rows[0].name, "stage0+stage3");
  EXPECT_EQ(rows[0].modules.size(), 2U);
  EXPECT_EQ(rows[1].stages, (std::vector<size_t>{1, 2}));
}

TEST(StageRows, TheStageThatComputesLongestBinds) {
  const Graph graph = gpt_of(4);
  const Cluster cluster = parse_cluster_line("2xv100-16g");
  const std::vector<StageRow> rows =
      SimulatedPlan(graph, cluster, "pp=2,micro_batches=4,boundaries=blocks.0").rows();
  EXPECT_EQ(binding_row(rows).name, "stage1") << "it has three of four layers";
}

// The plan is made anew, with another list of stages.
TEST(MovedBoundaries, TakeTheStepOfAPlanWithThatBoundary) {
  const Graph graph = gpt_of(4);
  const Cluster cluster = parse_cluster_line("2xv100-16g");
  const SimulatedPlan run(graph, cluster, "pp=2,micro_batches=4,boundaries=blocks.1");
  for (const StageRow& row : run.rows()) {
    const std::vector<MovedBoundary> moves =
        moved_boundaries(run.request, run.found, run.compiled, row);
    ASSERT_EQ(moves.size(), 1U) << "there is one boundary";
    EXPECT_EQ(moves[0].stage, 1U);
    ASSERT_TRUE(moves[0].step);
    EXPECT_NE(moves[0].after, moves[0].moved);
    const SimulatedPlan moved(graph, cluster, "pp=2,micro_batches=4,boundaries=" + moves[0].moved);
    EXPECT_EQ(*moves[0].step, moved.found.step()) << moves[0].moved;
  }
}

TEST(MovedBoundaries, OfAStageInTheMiddleBothBoundariesMove) {
  const Graph graph = gpt_of(6);
  const Cluster cluster = parse_cluster_line("3xv100-16g");
  const SimulatedPlan run(graph, cluster, "pp=3,micro_batches=4,boundaries=blocks.1+blocks.3");
  const std::vector<MovedBoundary> moves =
      moved_boundaries(run.request, run.found, run.compiled, run.rows()[1]);
  ASSERT_EQ(moves.size(), 2U);
  EXPECT_EQ(moves[0].stage, 1U);
  EXPECT_EQ(moves[1].stage, 2U);
}

TEST(MovedBoundaries, PlansThatAreNoPresetsAndNoPipelinesOfTheSearchHaveNone) {
  const Graph graph = gpt_of(2);
  const Cluster cluster = parse_cluster_line("2xv100-16g");
  SimulatedPlan run(graph, cluster, "pp=2,micro_batches=4");
  run.found.candidate.zero.reset();
  EXPECT_TRUE(moved_boundaries(run.request, run.found, run.compiled, run.rows().front()).empty());
}

}  // namespace
}  // namespace tessera
