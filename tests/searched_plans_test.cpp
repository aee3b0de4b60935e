// Searched plans over every configuration: they compute what the serial program computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "ir/models/family.h"
#include "planner/search/find_plan.h"
#include "planner/search/sources/placement_source.h"
#include "planner/search/sources/stage_source.h"
#include "sharding/explicit/explicit_shardings.h"
#include "simulator/step/deployment.h"
#include "training/engine/engine.h"
#include "training/engine/graphs.h"
#include "training/engine/programs/program_plans.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

/// A configuration, and the number of ranks.
struct SearchedPlansCase {
  std::string model;
  int ranks;
};
std::ostream& operator<<(std::ostream& out, const SearchedPlansCase& item) {
  return out << item.model << " on " << item.ranks;
}

std::vector<SearchedPlansCase> searched_plans_cases() {
  std::vector<SearchedPlansCase> list;
  for (const std::string model : {"mlp", "image_mlp", "gpt_markov", "bert", "lstm", "gru",
                                  "two_tower", "unet", "encoder_decoder", "llama"})
    for (int ranks : {2, 3, 4}) list.push_back({model, ranks});
  return list;
}

class SearchedEveryConfiguration : public testing::TestWithParam<SearchedPlansCase> {};

// Links that are fast and devices that are slow, so that the search divides all it can.
TEST_P(SearchedEveryConfiguration, OfTheSearchComputesWhatTheSerialProgramComputes) {
  RunConfig config = read_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" /
                                 (GetParam().model + ".toml"));
  set_sizes(config.model, config.data);
  ClusterDescription description = parse_cluster_line("8xv100").description();
  description.types.front().cost.flops_per_second /= 1000;
  description.types.front().cost.bytes_per_second /= 1000;
  const Cluster cluster(description);
  const Graph graph = training_graph(config);
  std::vector<Candidate> plans =
      PlacementSource()({graph, cluster}, constraints_of(GetParam().ranks, false), {});
  ASSERT_FALSE(plans.empty());
  const auto data =
      std::make_shared<const RunData>(load_data(config.data, {.context = config.model.context}));
  const Plan plan =
      with_other_programs(network_of(config.model), training_settings(config), plans.back().plan);
  const VerifyReport report = verify_plan(config, plan, data, {.steps = 1});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "losses");
}

/// Four devices whose links are slow, so that pipelines are the fastest plans.
TEST_P(SearchedEveryConfiguration, OfPipelinesComputesWhatTheSerialProgramComputes) {
  RunConfig config = read_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" /
                                 (GetParam().model + ".toml"));
  set_sizes(config.model, config.data);
  const Cluster cluster = parse_cluster_line("4x1xv100-16g;ib=1Gb");
  const Graph graph = training_graph(config);
  StageSource source;
  const std::vector<Candidate> plans =
      source({graph, cluster}, constraints_of(GetParam().ranks, false), {});
  const auto data =
      std::make_shared<const RunData>(load_data(config.data, {.context = config.model.context}));
  std::set<std::string> shapes;  // one plan for each list of meshes
  for (const Candidate& candidate : plans) {
    if (!shapes.insert(mesh_text(candidate.plan)).second || shapes.size() > 2) continue;
    Plan plan =
        with_other_programs(network_of(config.model), training_settings(config), candidate.plan);
    plan.schedule = PipelineKind::kOneForwardOneBackward;  // which fits all stages
    const VerifyReport report = verify_plan(config, plan, data, {.steps = 1});
    EXPECT_TRUE(report.ok) << candidate.name << ": "
                           << (report.first_difference ? report.first_difference->value : "losses");
  }
}

bool has_two_stages_on_a_rank(const Plan& plan) {
  std::set<Rank> firsts;
  for (const NamedMesh& mesh : plan.meshes) firsts.insert(mesh.mesh->ranks().front());
  return firsts.size() < plan.meshes.size();
}

/// The shortest step of the candidates that fit.
///   one_each  of those that have at most one stage on each rank
double shortest_step(const PlanSearchResult& result, bool one_each) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const EvaluatedCandidate& each : result.candidates)
    if (each.fits() && (!one_each || !has_two_stages_on_a_rank(each.candidate.plan)))
      shortest = std::min(shortest, each.step().value());
  return shortest;
}

// Slow devices, so that launches do not count, and links over which gradients are not summed. Of
// two micro-batches four stages have long bubbles, and eight shorter ones.
TEST(TwoStagesOnARank, AreTheBestPlanWhereTheyAreFasterAndComputeWhatTheSerialProgramComputes) {
  RunConfig config =
      read_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" / "gpt_markov.toml");
  config.model.layers = 6;
  config.train.batch = 2;
  config.optimizer.clip_norm = 0;
  set_sizes(config.model, config.data);
  ClusterDescription description = parse_cluster_line("4x1xv100-16g;ib=0.5Gb").description();
  description.types.front().cost.flops_per_second /= 1000;
  description.types.front().cost.bytes_per_second /= 1000;
  const Cluster cluster(description);
  const Graph graph = training_graph(config);
  const PlanSearchResult result =
      find_plan({graph, cluster}, {.constraints = constraints_of(4, false)});
  ASSERT_TRUE(result.best);
  const Candidate& best = result.candidates[*result.best].candidate;
  EXPECT_EQ(best.source, Candidate::Source::kPipeline) << best.name;
  EXPECT_TRUE(has_two_stages_on_a_rank(best.plan)) << best.name;
  EXPECT_LT(shortest_step(result, false), 0.99 * shortest_step(result, true));
  const auto data =
      std::make_shared<const RunData>(load_data(config.data, {.context = config.model.context}));
  const Plan plan =
      with_other_programs(network_of(config.model), training_settings(config), best.plan);
  const VerifyReport report = verify_plan(config, plan, data, {.steps = 1});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "losses");
}

/// What a problem counts beside its variables, and what the arena of the program needs.
struct CountedMemory {
  double counted = 0, live_bound = 0, arena = 0;
};

CountedMemory memory_of(const std::string& model, int ranks) {
  RunConfig config =
      read_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" / (model + ".toml"));
  set_sizes(config.model, config.data);
  const Graph graph = training_graph(config);
  const auto mesh = std::make_shared<const Mesh>(Shape{ranks}, std::vector<std::string>{"x"});
  Plan plan;
  plan.meshes = one_mesh(mesh);
  plan.cost = cost_of(identity_mapping(parse_cluster_line("8xv100"), ranks), std::vector{mesh});
  const PlacedGraph placed = placements(graph, plan);
  const std::optional<PlacementResult> result =
      search_placements(placed.graph, mesh, plan.cost, {.work = 100});
  plan.shardings.emplace().sections.emplace_back(
      kTrainSection, to_shardings(placed.graph, result->sharded, kTrainSection));
  const Compiled compiled = compile(graph, plan);
  double variables = 0;
  for (const Variable& variable : placed.graph.variables()) {
    const TensorType& type = placed.graph.type(variable.value);
    const DistAttr& canonical_placement = result->sharded.at(variable.value);
    variables += static_cast<double>(
        byte_size({type.dtype, canonical_placement.largest_shape(type.shape)}).value());
  }
  const ArenaPlan& arena = compiled.arenas[MeshIndex(0)];
  return {static_cast<double>(result->counted_memory.value()) - variables,
          static_cast<double>(arena.live_bound.value()), static_cast<double>(arena.size.value())};
}

class MemoryOfTheProblem : public testing::TestWithParam<SearchedPlansCase> {};

// Passes that move and combine exchanges change a little.
TEST_P(MemoryOfTheProblem, IsNotBelowTheLiveBoundAndNearTheArena) {
  const CountedMemory memory = memory_of(GetParam().model, GetParam().ranks);
  RecordProperty("of_the_arena", std::to_string(memory.counted / memory.arena));
  EXPECT_GE(memory.counted, memory.live_bound) << memory.counted / memory.live_bound;
  EXPECT_LE(memory.counted, 1.01 * memory.arena) << memory.counted / memory.arena;
}

std::vector<SearchedPlansCase> memory_cases() {
  std::vector<SearchedPlansCase> list;
  for (const std::string model :
       {"mlp", "image_mlp", "gpt", "gpt_markov", "gpt_tied", "bert", "lstm", "gru", "two_tower",
        "unet", "encoder_decoder", "llama", "resnet20"})
    for (int ranks : {2, 4}) list.push_back({model, ranks});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Searched, MemoryOfTheProblem, testing::ValuesIn(memory_cases()));
INSTANTIATE_TEST_SUITE_P(Searched, SearchedEveryConfiguration,
                         testing::ValuesIn(searched_plans_cases()));

}  // namespace
}  // namespace tessera
