#include "search/candidates/long_steps.h"

#include <gtest/gtest.h>

#include "cluster/cluster_file.h"
#include "network/family.h"
#include "network/graphs.h"
#include "presets/presets.h"
#include "search/candidates/candidate.h"

namespace tessera {
namespace {

Graph gpt_of(int64_t rows) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = 64,
                                      .context = 32,
                                      .layers = 2,
                                      .width = 64,
                                      .heads = 4,
                                      .dropout = 0});
  return training_graph(network, {}, rows, 1);
}

EvaluatedCandidate step_of(const std::string& preset, int64_t micro_batches,
                           const Cluster& cluster) {
  const Graph graph = gpt_of(2 * micro_batches);
  const std::string text = preset + ",micro_batches=" + std::to_string(micro_batches);
  Evaluations found =
      evaluate({graph, cluster},
               {{Candidate::Source::kPreset, text, preset_plan(parse_preset(text), graph)}});
  return std::move(found.evaluated.at(0));
}

/// The step of so many micro-batches as those of two shorter ones predict it.
EvaluatedCandidate predicted(const std::string& preset, int64_t micro_batches, int stages,
                             const Cluster& cluster) {
  const auto [fewer, more] = shorter_counts(stages);
  const EvaluatedCandidate a = step_of(preset, fewer, cluster), b = step_of(preset, more, cluster);
  const LongStep step{fewer, more, micro_batches};
  EvaluatedCandidate result = b;
  result.prediction = step.prediction(a.prediction, b.prediction);
  result.traffic = step.traffic(a.traffic, b.traffic);
  return result;
}

TEST(ShorterCounts, FillThePipeline) {
  EXPECT_EQ(shorter_counts(16), (std::array<int64_t, 2>{16, 32}));
  EXPECT_EQ(shorter_counts(2), (std::array<int64_t, 2>{8, 16}));
}

// What a micro-batch adds is the same for each, once the pipeline is full.
TEST(LongStep, IsThatOfTheWholeProgram) {
  const Cluster cluster = parse_cluster_line("2x2xv100-16g");
  for (const auto& [preset, stages] :
       {std::pair("pp=2,dp=2", 2), std::pair("pp=4", 4), std::pair("dp=2,tp=2", 1)}) {
    const EvaluatedCandidate whole = step_of(preset, 40, cluster);
    const EvaluatedCandidate found = predicted(preset, 40, stages, cluster);
    EXPECT_NEAR(found.prediction.step.value(), whole.prediction.step.value(),
                0.02 * whole.prediction.step.value())
        << preset;
    ASSERT_EQ(found.prediction.ranks.size(), 4U) << preset;
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(found.prediction.ranks[i].compute.value(),
                  whole.prediction.ranks[i].compute.value(),
                  0.01 * whole.prediction.ranks[i].compute.value())
          << preset << ", rank " << i;
    EXPECT_EQ(found.traffic.bytes, whole.traffic.bytes) << preset;
    EXPECT_EQ(found.traffic.bytes_over, whole.traffic.bytes_over) << preset;
  }
}

// From as many micro-batches as stages on, no further one is in flight.
TEST(LongStep, NeedsTheMemoryOfTheShorterOne) {
  const Cluster cluster = parse_cluster_line("4xv100-16g");
  const EvaluatedCandidate whole = step_of("pp=4", 40, cluster);
  const EvaluatedCandidate found = predicted("pp=4", 40, 4, cluster);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(static_cast<double>(found.prediction.memory[i].all().value()),
                static_cast<double>(whole.prediction.memory[i].all().value()),
                0.01 * static_cast<double>(whole.prediction.memory[i].all().value()))
        << i;
}

// 64 micro-batches of two layers are a small program.
TEST(IsPredicted, OfMoreMicroBatchesThanAProgramHasAsAWhole) {
  const Graph graph = gpt_of(2);
  Plan plan = preset_plan(parse_preset("pp=4"), gpt_of(8));
  EXPECT_EQ(plan.placed().size(), 4U);
  plan.micro_batches = 64;
  EXPECT_FALSE(is_predicted(graph, plan));
  plan.micro_batches = 65;
  EXPECT_TRUE(is_predicted(graph, plan));
  plan.accumulate = 5;
  EXPECT_FALSE(is_predicted(graph, plan)) << "its micro-batches are in groups";
}

// The shorter steps have the placements of the whole one, whose graph has other extents.
TEST(ShorterSteps, StandForTheWholeStepOfAPlanWithPlacements) {
  const Cluster cluster = parse_cluster_line("2x2xv100-16g");
  constexpr int64_t kCount = 72;
  const Graph graph = gpt_of(2 * kCount);
  const std::string text = "pp=2,dp=2,micro_batches=" + std::to_string(kCount);
  const Plan plan = resolved(graph, preset_plan(parse_preset(text), graph));
  const Candidate candidate{Candidate::Source::kPipeline, text, plan};
  PlanRequest request{graph, cluster};
  const EvaluatedCandidate whole = evaluate(request, {candidate}).evaluated.at(0);
  request.graph_of_rows = gpt_of;
  const EvaluatedCandidate found = evaluate(request, {candidate}).evaluated.at(0);
  EXPECT_TRUE(whole.candidate.shorter.empty());
  ASSERT_EQ(found.candidate.shorter.size(), 2U);
  EXPECT_EQ(found.candidate.shorter[0].plan.micro_batches, 8);
  EXPECT_EQ(batch_rows(*found.candidate.shorter[1].graph), 2 * 16);
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
    return gpt_of(rows);
  };
  const auto first = graphs.of(16, make), second = graphs.of(16, make);
  EXPECT_EQ(first, second);
  EXPECT_EQ(batch_rows(*graphs.of(32, make)), 32);
  EXPECT_EQ(made, 2);
}

}  // namespace
}  // namespace tessera
