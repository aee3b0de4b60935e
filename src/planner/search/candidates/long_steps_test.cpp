#include "planner/search/candidates/long_steps.h"

#include <gtest/gtest.h>

#include <cctype>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/presets.h"
#include "planner/search/internal/candidates/candidate.h"

namespace tessera {
namespace {

Graph long_steps_gpt_of(int64_t rows) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = 64,
                                      .context = 32,
                                      .layers = 8,
                                      .width = 64,
                                      .heads = 4,
                                      .dropout = 0});
  return training_graph(network, {}, rows, 1);
}

EvaluatedCandidate step_of(const std::string& preset, int64_t micro_batches,
                           const Cluster& cluster) {
  const Graph graph = long_steps_gpt_of(2 * micro_batches);
  const std::string text = preset + ",micro_batches=" + std::to_string(micro_batches);
  Evaluations found =
      evaluate({graph, cluster},
               {{Candidate::Source::kPreset, text, preset_plan(parse_preset(text), graph)}});
  return std::move(found.evaluated.at(0));
}

Plan plan_of(const std::string& preset) {
  return preset_plan(parse_preset(preset),
                     long_steps_gpt_of(2 * kSearchPolicy.whole_micro_batches));
}

TEST(ShorterCounts, FillThePipelineAndHaveAsManyInFlightAsThereEverAre) {
  using Counts = std::array<int64_t, 2>;
  EXPECT_EQ(shorter_counts(plan_of("dp=2,tp=2")), (Counts{3, 4}));
  EXPECT_EQ(shorter_counts(plan_of("pp=2,dp=2")), (Counts{3, 4}));
  EXPECT_EQ(shorter_counts(plan_of("pp=4")), (Counts{4, 5}));
  EXPECT_EQ(shorter_counts(plan_of("pp=4,schedule=zb-h1")), (Counts{6, 7}));
  // Up to 2 x 4 - 1 forwards are ahead.
  EXPECT_EQ(shorter_counts(plan_of("pp=4,schedule=eager-1f1b")), (Counts{4, 8}));
  // Of eight micro-batches nearly all forwards are ahead of the first backward.
  EXPECT_EQ(shorter_counts(plan_of("pp=4,schedule=zb-h2")), (Counts{12, 14}));
  // Eight stages on four devices, of which groups of four micro-batches begin together.
  for (const char* schedule : {"interleaved", "zb-v", "v-half", "v-min"})
    EXPECT_EQ(shorter_counts(plan_of("pp=4,schedule=" + std::string(schedule))), (Counts{8, 12}))
        << schedule;
  // The first group is larger.
  Plan plan = plan_of("pp=4,schedule=interleaved");
  plan.micro_batches = 70;
  EXPECT_EQ(shorter_counts(plan), (Counts{10, 14}));
}

/// Of a preset.
class LongStepOf : public ::testing::TestWithParam<const char*> {};

void expect_near(Seconds found, Seconds whole, const std::string& what) {
  EXPECT_NEAR(found.value(), whole.value(), 0.01 * whole.value()) << what;
}

// What a micro-batch adds is the same for each, once the pipeline is full, and no further one is in
// flight. The registers of a longer step are laid out anew, which leaves other gaps between them:
// up to 2.6% of the arena. Two micro-batches more than are compiled whole leave a remainder by the
// four devices.
TEST_P(LongStepOf, IsThatOfTheWholeProgram) {
  constexpr int64_t kCount = kSearchPolicy.whole_micro_batches + 2;
  const Cluster cluster = parse_cluster_line("2x2xv100-16g");
  Plan plan = plan_of(GetParam());
  plan.micro_batches = kCount;
  const auto [fewer, more] = shorter_counts(plan);
  const EvaluatedCandidate a = step_of(GetParam(), fewer, cluster);
  const EvaluatedCandidate b = step_of(GetParam(), more, cluster);
  const EvaluatedCandidate whole = step_of(GetParam(), kCount, cluster);
  const LongStep step{fewer, more, kCount};
  const StepPrediction found = step.prediction(a.prediction, b.prediction);
  expect_near(found.step, whole.prediction.step, "step");
  ASSERT_EQ(found.ranks.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    const std::string rank = "rank " + std::to_string(i);
    expect_near(found.ranks[i].compute, whole.prediction.ranks[i].compute, rank);
    const RankMemoryNeed &need = found.memory[i], &needed = whole.prediction.memory[i];
    EXPECT_NEAR(static_cast<double>(need.arena.value()), static_cast<double>(needed.arena.value()),
                0.03 * static_cast<double>(needed.arena.value()))
        << rank;
    EXPECT_EQ(need.batch, needed.batch) << rank;
    EXPECT_EQ(need.variables, needed.variables) << rank;
  }
  const Traffic traffic = step.traffic(a.traffic, b.traffic);
  EXPECT_EQ(traffic.bytes, whole.traffic.bytes);
  EXPECT_EQ(traffic.bytes_over, whole.traffic.bytes_over);
}

INSTANTIATE_TEST_SUITE_P(Presets, LongStepOf,
                         ::testing::Values("dp=2,tp=2", "dp=4,zero=3", "pp=2,dp=2", "pp=2,tp=2",
                                           "pp=4", "pp=4,schedule=eager-1f1b",
                                           "pp=4,schedule=zb-h1", "pp=4,schedule=zb-h2",
                                           "pp=4,schedule=interleaved", "pp=4,schedule=zb-v",
                                           "pp=4,schedule=v-half", "pp=4,schedule=v-min"),
                         [](const auto& preset) {
                           std::string name;
                           for (const char c : std::string(preset.param))
                             if (std::isalnum(c)) name += c;
                           return name;
                         });

// 64 micro-batches of two layers are a small program.
TEST(IsPredicted, OfMoreMicroBatchesThanAProgramHasAsAWhole) {
  const Graph graph = long_steps_gpt_of(2);
  Plan plan = preset_plan(parse_preset("pp=4"), long_steps_gpt_of(8));
  EXPECT_EQ(plan.placed().size(), 4U);
  plan.micro_batches = 64;
  EXPECT_FALSE(is_predicted(graph, plan));
  plan.micro_batches = 65;
  EXPECT_TRUE(is_predicted(graph, plan));
  plan.accumulate = 5;
  EXPECT_FALSE(is_predicted(graph, plan)) << "its micro-batches are in groups";
}

TEST(IsPredicted, OfNoScheduleThatKeepsAllMicroBatches) {
  Plan plan = plan_of("pp=4,schedule=f-then-b");
  plan.micro_batches = 65;
  EXPECT_FALSE(is_predicted(long_steps_gpt_of(2), plan));
}

// The shorter steps have the placements of the whole one, whose graph has other extents.
TEST(ShorterSteps, StandForTheWholeStepOfAPlanWithPlacements) {
  const Cluster cluster = parse_cluster_line("2x2xv100-16g");
  constexpr int64_t kCount = 72;
  const Graph graph = long_steps_gpt_of(2 * kCount);
  const std::string text = "pp=2,dp=2,micro_batches=" + std::to_string(kCount);
  const Plan plan = with_explicit_shardings(graph, preset_plan(parse_preset(text), graph));
  const Candidate candidate{Candidate::Source::kPipeline, text, plan};
  PlanRequest request{graph, cluster};
  const EvaluatedCandidate whole = evaluate(request, {candidate}).evaluated.at(0);
  request.graph_of_rows = long_steps_gpt_of;
  const EvaluatedCandidate found = evaluate(request, {candidate}).evaluated.at(0);
  EXPECT_TRUE(whole.candidate.shorter.empty());
  ASSERT_EQ(found.candidate.shorter.size(), 2U);
  EXPECT_EQ(found.candidate.shorter[0].plan.micro_batches, 3);
  EXPECT_EQ(batch_rows(*found.candidate.shorter[1].graph), 2 * 4);
  EXPECT_EQ(found.candidate.plan.micro_batches, kCount);
  EXPECT_NEAR(found.step().value(), whole.step().value(), 0.02 * whole.step().value());
  EXPECT_EQ(found.traffic.bytes, whole.traffic.bytes);
}

// Both candidates have a step of 16 micro-batches, of which there is one graph.
TEST(ShorterGraphs, AreMadeOnceForEachNumberOfRows) {
  int made = 0;
  ShorterGraphs graphs;
  const auto make = [&made](int64_t rows) {
    ++made;
    return long_steps_gpt_of(rows);
  };
  const auto first = graphs.get(16, make), second = graphs.get(16, make);
  EXPECT_EQ(first, second);
  EXPECT_EQ(batch_rows(*graphs.get(32, make)), 32);
  EXPECT_EQ(made, 2);
}

}  // namespace
}  // namespace tessera
