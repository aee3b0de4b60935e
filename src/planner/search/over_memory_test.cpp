// Candidates that do not fit are known before they are simulated.
#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "planner/search/find_plan.h"
#include "planner/search/internal/candidates/candidate.h"

namespace tessera {
namespace {

Graph two_layers() {
  const Network network = network_of(
      {.kind = "gpt", .vocabulary = 64, .context = 8, .layers = 2, .width = 32, .heads = 4});
  return training_graph(network, {}, 8, 1);
}

/// Four cores, on which no plan of the model fits.
Cluster small_cores() {
  ClusterDescription description = parse_cluster_line("cpu:4").description();
  for (DeviceType& type : description.types) type.memory = Bytes(1024);
  return Cluster(description);
}

Candidate preset(const Graph& graph, const std::string& text, Candidate::Source source) {
  return {source, text, preset_plan(parse_preset(text), graph)};
}

/// The prediction of the plan as it is compiled and simulated as a whole.
StepPrediction whole_prediction(const PlanRequest& request, Plan plan) {
  Compiled compiled = compile_on(request, plan);
  return predict_step(std::make_shared<const TaskGraph>(std::move(compiled.tasks)),
                      identity_mapping(request.cluster, plan.hardware()),
                      {.prefetch_exchanges = false});
}

TEST(OverMemory, HasTheMemoryOfTheCompiledProgramAndABoundOfItsStep) {
  const Graph graph = two_layers();
  const Cluster cluster = small_cores();
  const PlanRequest request{graph, cluster};
  for (const char* text :
       {"dp=4", "tp=4", "dp=2,tp=2", "pp=2,dp=2,micro_batches=4,schedule=1f1b", "dp=4,zero=1",
        "pp=4,micro_batches=4,schedule=zb-h1", "dp=4,micro_batches=2,recompute=full"}) {
    SCOPED_TRACE(text);
    const Evaluations found =
        evaluate(request, {preset(graph, text, Candidate::Source::kPreset)}, {});
    ASSERT_EQ(found.evaluated.size(), 1U);
    const EvaluatedCandidate& over_memory = found.evaluated.front();
    const StepPrediction whole = whole_prediction(request, over_memory.candidate.plan);
    EXPECT_FALSE(over_memory.is_simulated);
    EXPECT_FALSE(over_memory.fits());
    ASSERT_EQ(over_memory.prediction.memory.size(), whole.memory.size());
    for (size_t i = 0; i < whole.memory.size(); ++i)
      EXPECT_EQ(over_memory.prediction.memory[i].all(), whole.memory[i].all()) << "rank " << i;
    EXPECT_GT(over_memory.step(), Seconds(0));
    EXPECT_LE(over_memory.step(), whole.step);
  }
}

TEST(OverMemory, WhatTheUserComparesIsSimulatedWhetherItFitsOrNot) {
  const Graph graph = two_layers();
  const Cluster cluster = small_cores();
  const PlanRequest request{graph, cluster};
  const Evaluations found =
      evaluate(request, {preset(graph, "dp=4", Candidate::Source::kCompared)}, {});
  ASSERT_EQ(found.evaluated.size(), 1U);
  const EvaluatedCandidate& compared = found.evaluated.front();
  EXPECT_TRUE(compared.is_simulated);
  EXPECT_FALSE(compared.fits());
  EXPECT_EQ(compared.step(), whole_prediction(request, compared.candidate.plan).step);
}

/// Four cores with so much memory each.
Cluster cores_with(Bytes memory) {
  ClusterDescription description = parse_cluster_line("cpu:4").description();
  for (DeviceType& type : description.types) type.memory = memory;
  return Cluster(description);
}

// An embedding and layers of odd widths: placements that a search finds need less than presets.
TEST(OverMemory, TheNearestOneIsSearchedWhereNothingFitsAndFitsInTheMemoryThatItNeeds) {
  const Graph graph = training_graph(
      network_of({.kind = "mlp", .vocabulary = 1009, .context = 7, .layers = 3, .width = 301}), {},
      11, 1);
  const Bytes variables = [&] {
    Bytes sum{0};
    for (const Variable& variable : graph.variables()) sum += byte_size(graph.type(variable.value));
    return sum;
  }();
  const Cluster small = cores_with(Bytes(variables.value() / 4));
  const auto need_of_nearest = [&](std::vector<CandidateSource> sources) {
    const PlanSearchResult result = find_plan(
        {graph, small}, {.constraints = constraints_of(4, false), .sources = std::move(sources)});
    EXPECT_FALSE(result.best);
    return result.candidates.front().fullest.memory.all();
  };
  const Bytes of_presets = need_of_nearest({}), of_all = need_of_nearest(placement_searches());
  EXPECT_LT(of_all, of_presets);
  const Cluster larger = cores_with(of_all);
  EXPECT_TRUE(find_plan({graph, larger},
                        {.constraints = constraints_of(4, false), .sources = placement_searches()})
                  .best);
}

}  // namespace
}  // namespace tessera
