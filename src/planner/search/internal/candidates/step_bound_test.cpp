#include "planner/search/internal/candidates/step_bound.h"

#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "planner/search/internal/candidates/candidate.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {
namespace {

Graph gpt(int64_t layers, int64_t width) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = 64,
                                      .context = 16,
                                      .layers = layers,
                                      .width = width,
                                      .heads = 4});
  return training_graph(network, {}, 8, 1);
}

Graph graph_of_kind(const std::string& kind) {
  return training_graph(network_of({.kind = kind, .context = 8, .layers = 2, .width = 32}), {}, 16,
                        1);
}

struct BoundAndStep {
  Seconds bound{0}, step{0};
  Seconds kernels{0};  // of the rank that computes longest
};

BoundAndStep bound_and_step(const PlanRequest& request, Plan plan) {
  const Deployment deployment = identity_mapping(request.cluster, plan.rank_count());
  const Compiled compiled = compile_on(request, plan, false);
  BoundAndStep result{step_bound(compiled, plan, deployment)};
  const StepPrediction prediction =
      predict_step(std::make_shared<const TaskGraph>(compiled.tasks), deployment);
  result.step = prediction.step;
  for (const RankBreakdown& rank : prediction.ranks)
    result.kernels = std::max(result.kernels, rank.compute);
  return result;
}

TEST(StepBound, IsBelowTheStepOfEveryPreset) {
  for (const char* machines : {"cpu:8", "8xa100-80g", "2x4xh100-sxm"})
    for (const Graph& graph : {gpt(2, 32), graph_of_kind("mlp")}) {
      const Cluster cluster = parse_cluster_line(machines);
      const PlanRequest request{graph, cluster};
      for (const char* decisions : {"", "pp=2,micro_batches=4", "tp=2,micro_batches=2"})
        for (const Candidate& preset :
             preset_grid(request, constraints_of(8, false, decisions), 64).candidates) {
          const BoundAndStep found = bound_and_step(request, preset.plan);
          EXPECT_LE(found.bound, found.step) << machines << " " << preset.name;
          EXPECT_GT(found.bound, Seconds(0)) << machines << " " << preset.name;
        }
    }
}

TEST(StepBound, IsBelowTheStepInRuntimesThatJoinKernels) {
  for (const RuntimeProfile& runtime : runtime_profiles())
    for (const Graph& graph : {gpt(2, 32), gpt(1, 512), graph_of_kind("mlp")}) {
      const Cluster cluster(on_runtime(parse_cluster_line("2x4xh100-sxm").description(), runtime));
      const PlanRequest request{graph, cluster};
      for (const char* decisions : {"", "pp=2,micro_batches=4"})
        for (const Candidate& preset :
             preset_grid(request, constraints_of(8, false, decisions), 16).candidates) {
          const BoundAndStep found = bound_and_step(request, preset.plan);
          EXPECT_LE(found.bound, found.step) << runtime.name << " " << preset.name;
          EXPECT_GT(found.bound, Seconds(0)) << runtime.name << " " << preset.name;
        }
    }
}

TEST(StepBound, IsBelowTheStepWithDecomposedMatmuls) {
  const Graph graph = gpt(1, 64);
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  for (const char* text : {"tp=4,collective_matmul=2", "tp=2,dp=2,collective_matmul=4"}) {
    const BoundAndStep found =
        bound_and_step({graph, cluster}, preset_plan(parse_preset(text), graph));
    EXPECT_LE(found.bound, found.step) << text;
  }
}

TEST(StepBound, OfOneRankIsTheTimeOfItsKernels) {
  // Nothing is exchanged, so a step is its kernels; the bound gives up a nanosecond for each.
  const Graph graph = gpt(1, 64);
  const Cluster cluster = parse_cluster_line("1xa100-80g");
  const BoundAndStep found = bound_and_step({graph, cluster}, serial_plan());
  EXPECT_LE(found.bound, found.step);
  EXPECT_GT(found.bound.value(), 0.99 * found.step.value());
}

TEST(StepBound, OfAPipelineIncludesItsBubble) {
  // Two equal products, each on a rank of its own: the second rank waits for the first one, so a
  // step takes twice the kernels of a rank.
  const Graph graph = parse_graph(
      "input x: f32[1024,1024]\n"
      "variable w: f32[1024,1024] = normal(0.0, 0.02)\n"
      "variable v: f32[1024,1024] = normal(0.0, 0.02)\n"
      "a = dot_general(x, w) {spec=\"bi,io->bo\"}: f32[1024,1024]\n"
      "b = dot_general(a, v) {spec=\"bi,io->bo\"}: f32[1024,1024]\n"
      "output b = b\n");
  const Cluster cluster = parse_cluster_line("2xa100-80g");
  Plan plan;
  plan.meshes = {{"first", std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"x"},
                                                        std::vector<Rank>{0})},
                 {"last", std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"x"},
                                                       std::vector<Rank>{1})}};
  plan.marks = {tessera::stage("a", "first"), tessera::stage("b", "last")};
  const BoundAndStep found = bound_and_step({graph, cluster}, plan);
  EXPECT_LE(found.bound, found.step);
  EXPECT_GT(found.bound.value(), 1.99 * found.kernels.value());
}

}  // namespace
}  // namespace tessera
