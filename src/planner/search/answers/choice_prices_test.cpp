#include "planner/search/answers/choice_prices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "planner/search/sources/placement_source.h"

namespace tessera {
namespace {

using testing::Contains;
using testing::Not;

Graph small_gpt(int64_t layers) {
  const Network network =
      network_of({.kind = "gpt", .context = 16, .layers = layers, .width = 32, .heads = 4});
  return training_graph(network, {}, 8, 1);
}

/// The best plan of the search in which nothing is hidden, on one axis.
Plan searched_plan(const PlanRequest& request, const PlanConstraints& constraints) {
  constexpr int64_t kWork = 10;
  return PlacementSource(kWork)(request, constraints, {}).front().plan;
}

Seconds min_time(const ChoicePrices& prices) {
  double smallest =
      prices.chosen.time ? prices.chosen.time->value() : std::numeric_limits<double>::infinity();
  for (const PricedChoice& other : prices.others)
    if (other.time) smallest = std::min(smallest, other.time->value());
  return Seconds(smallest);
}

constexpr double kRounding = 1e-9;  // of a step in picoseconds

TEST(ChoicePrices, TheBestOfAllChoicesIsTheBestOfTheProblem) {
  const Graph graph = small_gpt(1);
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  const PlanRequest request{graph, cluster};
  const PlanConstraints constraints = constraints_of(2, false);
  const Plan plan = searched_plan(request, constraints);
  for (const char* name : {"blocks.0.ffn.up.dot", "blocks.0.attn.q.weight", "tokens"}) {
    const auto prices = choice_prices(request, constraints, plan, name);
    ASSERT_TRUE(prices) << name;
    EXPECT_EQ(prices->not_priced, 0) << name;
    ASSERT_TRUE(prices->chosen.time) << name;
    EXPECT_NEAR(min_time(*prices).value(), prices->best.value(), kRounding) << name;
    EXPECT_NEAR(prices->chosen.time->value(), prices->best.value(), kRounding)
        << name << ": the plan is the best result of the problem";
  }
}

TEST(ChoicePrices, OthersAreSortedAndAreNotTheChosenOne) {
  const Graph graph = small_gpt(1);
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  const PlanRequest request{graph, cluster};
  const Plan plan = preset_plan(parse_preset("tp=2"), graph);
  const auto prices =
      choice_prices(request, constraints_of(2, false), plan, "blocks.0.ffn.up.weight");
  ASSERT_TRUE(prices);
  EXPECT_EQ(prices->chosen.text, "[*, @tp]");
  std::vector<std::string> texts;
  for (const PricedChoice& other : prices->others) texts.push_back(other.text);
  EXPECT_THAT(texts, testing::UnorderedElementsAre("[*, *]", "[@tp, *]"));
  EXPECT_TRUE(std::ranges::is_sorted(prices->others, {},
                                     [](const PricedChoice& choice) { return *choice.time; }));
}

TEST(ChoicePrices, LikeLayersArePlacedAlike) {
  const Graph graph = training_graph(
      network_of({.kind = "mlp", .context = 8, .layers = 4, .width = 64}), {}, 16, 1);
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  const PlanRequest request{graph, cluster};
  const Plan plan = preset_plan(parse_preset("dp=2"), graph);
  const auto count_identical = [&](const char* name) {
    return choice_prices(request, constraints_of(2, false), plan, name)->identical;
  };
  EXPECT_EQ(count_identical("hidden.2.weight"), 3)
      << "hidden.1 to hidden.3: hidden.0 reads other rows";
  EXPECT_EQ(count_identical("hidden.2.dot"), 3);
  EXPECT_EQ(count_identical("head.weight"), 1);
}

TEST(ChoicePrices, MemoryBindsWhereMoreOfItGivesAFasterProblem) {
  const Graph graph = small_gpt(1);
  ClusterDescription description = parse_cluster_line("4xa100-80g").description();
  const PlanConstraints constraints = constraints_of(2, false);
  const Cluster large(description);
  const PlanRequest request{graph, large};
  const std::vector<Candidate> found = PlacementSource()(request, constraints, {});
  const Bytes counted = found.front().problem->counted_memory;
  const auto any =
      choice_prices(request, constraints, found.front().plan, "blocks.0.ffn.up.weight");
  ASSERT_TRUE(any);
  EXPECT_FALSE(any->memory_binds());
  for (DeviceType& type : description.types)
    type.memory = type.reserve + Bytes(counted.value() * 9 / 10);
  const Cluster small(description);
  const PlanRequest tight{graph, small};
  const auto prices = choice_prices(tight, constraints, searched_plan(tight, constraints),
                                    "blocks.0.ffn.up.weight");
  ASSERT_TRUE(prices);
  EXPECT_TRUE(prices->memory_binds());
  EXPECT_NEAR(prices->with_any_memory.value(), any->best.value(), kRounding);
}

TEST(ChoicePrices, AFixedDegreeIsOnTheInputsThatItDivides) {
  const Graph graph = small_gpt(1);
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  const PlanRequest request{graph, cluster};
  const PlanConstraints constraints = constraints_of(2, false, "tp=2");
  const Plan plan = preset_plan(parse_preset("tp=2"), graph);
  const auto tokens = choice_prices(request, constraints, plan, "tokens");
  ASSERT_TRUE(tokens && tokens->unfixed);
  EXPECT_TRUE(tokens->is_fixed);
  EXPECT_LE(*tokens->unfixed, tokens->best);
  const auto weight = choice_prices(request, constraints, plan, "blocks.0.ffn.up.weight");
  ASSERT_TRUE(weight);
  EXPECT_FALSE(weight->is_fixed);
}

TEST(ChoicePrices, AMarkIsOnWhatItNames) {
  const Graph graph = small_gpt(1);
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  const PlanRequest request{graph, cluster};
  Plan marked;
  marked.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("x=2")));
  marked.marks = {shard_tensor("blocks.*.ffn.up.weight", "P(None, \"x\")")};
  const PlanConstraints constraints = with_marks_of(marked, constraints_of(2, false));
  const Plan plan = searched_plan(request, constraints);
  const auto prices = choice_prices(request, constraints, plan, "blocks.0.ffn.up.weight");
  ASSERT_TRUE(prices && prices->unfixed);
  EXPECT_EQ(prices->chosen.text, "[*, @x]");
  EXPECT_TRUE(prices->is_fixed);
  EXPECT_NEAR(min_time(*prices).value(), prices->unfixed->value(), kRounding)
      << "the others are priced without the mark";
}

TEST(ChoicePrices, WhatIsNotSearchedHasNone) {
  const Graph graph = small_gpt(1);
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  const PlanRequest request{graph, cluster};
  const PlanConstraints constraints = constraints_of(2, false);
  EXPECT_FALSE(choice_prices(request, constraints, preset_plan(parse_preset("pp=2"), graph),
                             "blocks.0.ffn.up.weight"));
  EXPECT_FALSE(choice_prices(request, constraints, preset_plan(parse_preset("tp=2"), graph),
                             "nothing of this name"));
}

}  // namespace
}  // namespace tessera
