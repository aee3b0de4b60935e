// What the search for pipelines estimates, beside the compiled and simulated step.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/pipeline/pipeline_simulator.h"
#include "planner/pipeline/stage_search.h"
#include "planner/search/find_plan.h"
#include "planner/search/internal/sources/stage_divisions.h"
#include "planner/search/internal/sources/stage_plans.h"

namespace tessera {
namespace {

struct EstimateCase {
  std::string text;  // of the constraints
  int ranks = 2;
  Recompute::Kind recompute = Recompute::Kind::kNone;
  int zero = 0;
};

std::vector<EstimateCase> cases(std::string_view schedule) {
  std::vector<EstimateCase> list;
  for (const auto& [degrees, ranks] :
       {std::pair("pp=2,dp=1,tp=1", 2), std::pair("pp=4,dp=1,tp=1", 4),
        std::pair("pp=4,dp=1,tp=2", 8)})
    for (const auto& [word, kind] : {std::pair("none", Recompute::Kind::kNone),
                                     std::pair("selective", Recompute::Kind::kSelective),
                                     std::pair("full", Recompute::Kind::kFull)})
      list.push_back({std::string(degrees) + ",micro_batches=8,schedule=" + std::string(schedule) +
                          ",recompute=" + word,
                      ranks, kind});
  return list;
}

struct StageEstimatesCompared {
  PipelineChoice choice;
  EvaluatedCandidate compiled;
};

/// The pipeline of least estimated time.
StageEstimatesCompared compared(const PlanRequest& request, const EstimateCase& item) {
  const PlanConstraints constraints = constraints_of(item.ranks, false, item.text);
  const Plan decisions = decisions_of(constraints);
  const Deployment deployment = identity_mapping(request.cluster, item.ranks);
  GraphInterner graphs;
  const StageDivisions divisions(request, constraints, stage_line(request, constraints),
                                 DeviceRuns(deployment), decisions.micro_batches,
                                 {{item.recompute}, item.zero}, graphs);
  const auto stages = static_cast<int>(constraints.degrees.at("pp"));
  StageSearch search(divisions.sequence(), divisions.stage_shardings(), deployment,
                     {.micro_batches = {decisions.micro_batches},
                      .schedules = {decisions.schedule},
                      .stages = stages});
  const PipelineChoice choice = search.best().at(0);
  std::optional<Candidate> candidate = candidate_of(request, decisions, choice, divisions);
  return {choice, evaluate(request, {candidate.value()}).evaluated.at(0)};
}

Graph stage_estimates_gpt(int64_t heads = 4) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = 512,
                                      .context = 128,
                                      .layers = 8,
                                      .width = 128,
                                      .heads = heads,
                                      .dropout = 0});
  return training_graph(network, {}, 32, 1);
}

/// By stage, the bytes of values that are estimated over those of the compiled arena.
std::vector<double> arena_ratios(const StageEstimatesCompared& found) {
  const std::vector<double> estimated = simulated_memory(found.choice);
  const Meshes& meshes = found.compiled.candidate.plan.meshes;
  std::vector<double> ratios;
  for (size_t stage = 0; stage < meshes.size(); ++stage) {
    const RankMemoryNeed& need =
        found.compiled.prediction.memory.at(meshes[stage].mesh->ranks().front());
    ratios.push_back((estimated[stage] - static_cast<double>(need.variables.value())) /
                     static_cast<double>(need.arena.value()));
  }
  return ratios;
}

// What is left out are scalars and gaps of the arena; what is counted in vain is the micro-batch
// that arrives from each neighbour, where it comes later than the peak. Without these arrivals the
// ratios were 0.940 to 1.028, and two tensors of a cut were missing in the middle stages.
TEST(StageEstimates, OfMemoryAreTheArenaOfTheCompiledStages) {
  const Graph graph = stage_estimates_gpt();
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  for (const EstimateCase& item : cases("1f1b"))
    for (const double ratio : arena_ratios(compared({graph, cluster}, item))) {
      EXPECT_GE(ratio, 0.97) << item.text;
      EXPECT_LE(ratio, 1.07) << item.text;
    }
}

// The gradients are whole until they are summed and divided.
TEST(StageEstimates, OfMemoryAreTheArenaWhereDpDividesTheStates) {
  const Graph graph = stage_estimates_gpt();
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  const EstimateCase item{"pp=2,dp=2,tp=1,micro_batches=8,schedule=1f1b,recompute=full", 4,
                          Recompute::Kind::kFull, 1};
  const StageEstimatesCompared found = compared({graph, cluster}, item);
  for (const double ratio : arena_ratios(found)) {
    EXPECT_GE(ratio, 0.97);
    EXPECT_LE(ratio, 1.07);
  }
  EstimateCase whole = item;
  whole.zero = 0;
  const StageEstimatesCompared all = compared({graph, cluster}, whole);
  for (size_t rank = 0; rank < 4; ++rank)
    EXPECT_LT(found.compiled.prediction.memory[rank].variables.value(),
              0.7 * static_cast<double>(all.compiled.prediction.memory[rank].variables.value()));
}

// A split backward keeps what weight gradients read. The most bytes at one op are counted beside
// it, although they are partly the same: with recomputation these are nearly all that there is.
TEST(StageEstimates, OfMemoryAreNoLessThanTheArenaWhereTheBackwardIsSplit) {
  const Graph graph = stage_estimates_gpt();
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  for (const EstimateCase& item : cases("zb-h1"))
    for (const double ratio : arena_ratios(compared({graph, cluster}, item))) {
      EXPECT_GE(ratio, 0.97) << item.text;
      EXPECT_LE(ratio, item.recompute == Recompute::Kind::kNone ? 1.05 : 1.4) << item.text;
    }
}

// Measured are 0.98 to 1.03. What is computed again is in it, or `full` would be 0.7 of its step;
// without additions over micro-batches, and updates that wait for the clipped norm, they would be
// 0.91 to 0.97.
TEST(StageEstimates, OfTimeAreTheSimulatedStepWhateverIsComputedAgain) {
  const Graph graph = stage_estimates_gpt();
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  for (const EstimateCase& item : cases("1f1b")) {
    const StageEstimatesCompared found = compared({graph, cluster}, item);
    const double ratio = found.choice.seconds / found.compiled.step().value();
    EXPECT_GE(ratio, 0.97) << item.text;
    EXPECT_LE(ratio, 1.04) << item.text;
  }
}

// These estimates stand for a simulation where tensor parallelism crosses machines, above
// SearchPolicy::many_ranks; here the step can be simulated.
TEST(StageEstimates, OfTimeCountWhatIsComputedAgainWhereTensorParallelismCrossesMachines) {
  const Graph graph = stage_estimates_gpt(8);
  const Cluster cluster = parse_cluster_line("4x4xv100-16g;ib=100Gb");
  const auto found = [&](const std::string& word, Recompute::Kind kind) {
    const EstimateCase item{"pp=2,dp=1,tp=8,micro_batches=8,schedule=1f1b,recompute=" + word, 16,
                            kind};
    return compared({graph, cluster}, item);
  };
  const StageEstimatesCompared none = found("none", Recompute::Kind::kNone);
  for (const StageEstimatesCompared& again :
       {found("selective", Recompute::Kind::kSelective), found("full", Recompute::Kind::kFull)}) {
    const double estimated = again.choice.seconds / none.choice.seconds;
    const double simulated = again.compiled.step().value() / none.compiled.step().value();
    EXPECT_GT(simulated, 1.05) << again.compiled.candidate.name;
    EXPECT_NEAR(estimated, simulated, 0.05 * simulated) << again.compiled.candidate.name;
  }
}

}  // namespace
}  // namespace tessera
