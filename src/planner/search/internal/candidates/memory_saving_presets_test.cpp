#include "planner/search/internal/candidates/memory_saving_presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"

namespace tessera {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Graph memory_saving_presets_small_gpt() {
  const Network network = network_of(
      {.kind = "gpt", .vocabulary = 64, .context = 8, .layers = 2, .width = 32, .heads = 4});
  return training_graph(network, {}, 8, 1);
}

/// The memory that the preset needs on its fullest rank.
RankMemoryNeed need_of(const Graph& graph, const Cluster& cluster, const std::string& text) {
  const Candidate candidate{Candidate::Source::kCompared, text,
                            preset_plan(parse_preset(text), graph)};
  return evaluate({graph, cluster}, {candidate}).evaluated.at(0).fullest.memory;
}

const Cluster& devices() {
  static const Cluster cluster(parse_cluster_line("4xv100-16g").description());
  return cluster;
}

constexpr MemorySavingPresets::Choices kAll{}, kFixedMicroBatches{.micro_batches = false};

/// A rank of 100 bytes too much, half of which are variables.
RankMemoryNeed too_much() {
  return {.variables = Bytes(500), .arena = Bytes(500), .capacity = Bytes(900)};
}

TEST(RecomputeShares, FullKeepsLessThanSelectiveAndComputesTheLayersAgain) {
  const auto [none, selective, full] =
      recompute_shares(memory_saving_presets_small_gpt(), devices().type(0).cost);
  EXPECT_EQ(none.kept, 1);
  EXPECT_EQ(none.added, 0);
  EXPECT_LT(selective.kept, 1);
  EXPECT_LT(full.kept, selective.kept);
  EXPECT_GT(full.added, selective.added);
  // The backward of a product is two products, so that the forward is a third of them.
  EXPECT_LT(full.added, 1.0 / 3);
}

// The limit is what a combination needs, so that it just fits.
TEST(MemorySavingPresets, WhatFitsIsNotLeftOut) {
  const Graph graph = memory_saving_presets_small_gpt();
  const Cluster cluster(parse_cluster_line("cpu:4").description());
  for (const char* base :
       {"dp=4", "dp=4,micro_batches=2", "dp=2,tp=2,micro_batches=4", "pp=2,dp=2,micro_batches=4"})
    for (const char* saving : {",zero=1", ",zero=3", ",recompute=selective", ",recompute=full",
                               ",zero=1,recompute=selective", ",zero=2,recompute=full"}) {
      const std::string name = std::string(base) + saving;
      if (name == "dp=4,zero=2,recompute=full") continue;  // it is zero 1
      RankMemoryNeed need = need_of(graph, cluster, base);
      need.capacity = need_of(graph, cluster, name).all();
      MemorySavingPresets saved(graph, cluster, kAll);
      saved.add({base, Seconds(1), need, parse_preset(base).decisions.micro_batches});
      EXPECT_THAT(saved.take(100, std::nullopt), Contains(name)) << base;
    }
}

TEST(MemorySavingPresets, TheShortestBoundIsFirstAndZeroOneAddsNothing) {
  MemorySavingPresets saved(memory_saving_presets_small_gpt(), devices(), kFixedMicroBatches);
  saved.add({"dp=2", Seconds(1), too_much()});
  saved.add({"dp=4", Seconds(0.5), too_much()});
  EXPECT_THAT(saved.take(1, std::nullopt), ElementsAre("dp=4,zero=1"));
}

TEST(MemorySavingPresets, WhatCannotBeFasterOrCannotFitIsLeftOut) {
  MemorySavingPresets saved(memory_saving_presets_small_gpt(), devices(), kFixedMicroBatches);
  saved.add({"dp=2", Seconds(1), too_much()});
  EXPECT_THAT(saved.take(100, Seconds(0.9)), ElementsAre());
  RankMemoryNeed far = too_much();
  far.capacity = Bytes(1);
  MemorySavingPresets hopeless(memory_saving_presets_small_gpt(), devices(), kAll);
  hopeless.add({"dp=2", Seconds(1), far});
  EXPECT_THAT(hopeless.take(100, std::nullopt), ElementsAre());
}

// Each rank updates the variables that it has, which the stages and tp divide and sp does not.
TEST(UpdateSavedByZero, AreThePartsOfTheUpdateThatOtherRanksOfDpTake) {
  const UpdateSavedByZero updates(memory_saving_presets_small_gpt(), devices().type(0).cost);
  const auto saved = [&](const char* preset) {
    return updates.seconds(parse_preset(preset)).value();
  };
  EXPECT_GT(saved("dp=2"), 0);
  EXPECT_DOUBLE_EQ(saved("dp=4"), 1.5 * saved("dp=2"));
  EXPECT_DOUBLE_EQ(saved("dp=2,tp=2"), saved("dp=2") / 2);
  EXPECT_DOUBLE_EQ(saved("pp=2,dp=2"), saved("dp=2") / 2);
  EXPECT_DOUBLE_EQ(saved("dp=2,sp=2"), saved("dp=2"));
  EXPECT_EQ(saved("tp=4"), 0);
  EXPECT_EQ(saved("dp=4,zero=1"), 0) << "it has divided it";
}

TEST(MemorySavingPresets, WithZeroAPresetOverMemoryMayBeFasterThanItsBound) {
  MemorySavingPresets saved(memory_saving_presets_small_gpt(), devices(), kFixedMicroBatches);
  saved.add({"dp=2", Seconds(1), too_much()});
  const std::vector<std::string> names = saved.take(100, Seconds(1));
  EXPECT_THAT(names, Contains("dp=2,zero=1"));
  EXPECT_THAT(names, Each(HasSubstr(",zero=")));
}

TEST(MemorySavingPresets, LessThanAPresetOverMemoryAndMoreThanAFitAreNotTried) {
  RankMemoryNeed fits = too_much(), over_memory = too_much();
  fits.arena = Bytes(300);
  MemorySavingPresets saved(memory_saving_presets_small_gpt(), devices(), kFixedMicroBatches);
  saved.add({"dp=2", Seconds(1), too_much()});
  ASSERT_THAT(saved.take(1, std::nullopt), ElementsAre("dp=2,zero=1"));
  saved.learn("dp=2,zero=1", fits);
  const std::vector<std::string> others = saved.take(100, std::nullopt);
  EXPECT_THAT(others, Contains("dp=2,recompute=selective"));
  EXPECT_THAT(others, Not(Contains("dp=2,zero=1,recompute=selective")));
  EXPECT_THAT(others, Not(Contains("dp=2,zero=3")));

  MemorySavingPresets lacking(memory_saving_presets_small_gpt(), devices(), kFixedMicroBatches);
  lacking.add({"dp=2,micro_batches=2", Seconds(1), too_much(), 2});
  lacking.add({"dp=2,micro_batches=4", Seconds(1.5), too_much(), 4});
  ASSERT_THAT(lacking.take(1, std::nullopt), ElementsAre("dp=2,micro_batches=2,zero=1"));
  lacking.learn("dp=2,micro_batches=2,zero=1", over_memory);
  EXPECT_THAT(lacking.take(100, std::nullopt), Contains("dp=2,micro_batches=4,zero=1"));
}

// The batch has eight rows.
TEST(MemorySavingPresets, OneMeshHasMoreMicroBatchesAsWell) {
  MemorySavingPresets saved(memory_saving_presets_small_gpt(), devices(), kAll);
  saved.add({"dp=2", Seconds(1), too_much()});
  const std::vector<std::string> names = saved.take(100, std::nullopt);
  EXPECT_THAT(names, Contains("dp=2,micro_batches=4,zero=2,recompute=full"));
  EXPECT_THAT(names, Not(Contains("dp=2,micro_batches=8,zero=1"))) << "a rank has no row then";
  EXPECT_THAT(names, Not(Contains("dp=2,zero=2"))) << "it is zero 1";

  MemorySavingPresets pipeline(memory_saving_presets_small_gpt(), devices(), kAll);
  pipeline.add({"pp=2,dp=2,micro_batches=2", Seconds(1), too_much(), 2});
  EXPECT_THAT(pipeline.take(100, std::nullopt), Each(HasSubstr(",micro_batches=2,")));
}

// Variables of 300 bytes, of which about 100 are trained: state of 200 bytes and gradients of 100.
TEST(MemorySavingPresets, ThoseThatAreExpectedToFitAreFirst) {
  const RankMemoryNeed need{.variables = Bytes(300), .arena = Bytes(1700), .capacity = Bytes(1200)};
  MemorySavingPresets saved(memory_saving_presets_small_gpt(), devices(), {.recompute = false});
  saved.add({"dp=2", Seconds(1), need});
  // With zero 1 variables of 200 bytes, and activations of 1700, or of 850 and sums of 100. What
  // zero 2 exchanges further takes time.
  EXPECT_EQ(saved.take(1, std::nullopt).at(0), "dp=2,micro_batches=2,zero=1");
  // It needs half as much again, so that 850 and sums of 50 bytes do not fit either.
  RankMemoryNeed known = need;
  known.variables = Bytes(200);
  known.arena = Bytes(1525);
  saved.learn("dp=2,micro_batches=2,zero=1", known);
  EXPECT_EQ(saved.take(1, std::nullopt).at(0), "dp=2,micro_batches=4,zero=1");
}

TEST(MemorySavingPresets, RecomputeThatIsFixedIsNotChosen) {
  MemorySavingPresets saved(memory_saving_presets_small_gpt(), devices(),
                            {.recompute = false, .micro_batches = false});
  saved.add({"dp=2", Seconds(1), too_much()});
  EXPECT_THAT(saved.take(100, std::nullopt), ElementsAre("dp=2,zero=1", "dp=2,zero=3"));
}

}  // namespace
}  // namespace tessera
