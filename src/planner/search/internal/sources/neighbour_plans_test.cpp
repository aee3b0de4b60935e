#include "planner/search/internal/sources/neighbour_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "planner/search/find_plan.h"
#include "planner/search/internal/sources/searched_placements.h"
#include "planner/search/sources/placement_source.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::Not;

constexpr int64_t kMany = 100;

/// A network of four layers on four cores; a device computes much longer than it exchanges.
struct ChangeCase {
  Graph graph = training_graph(
      network_of({.kind = "mlp", .context = 8, .layers = 4, .width = 64, .dropout = 0}), {}, 64, 1);
  Cluster cluster = parse_cluster_line("cpu:4");
  PlanRequest request{graph, cluster};

  Candidate preset(const std::string& text) const {
    return {Candidate::Source::kPreset, text, preset_plan(parse_preset(text), graph)};
  }
  std::vector<std::string> names(const std::string& text, const PlanConstraints& constraints,
                                 int64_t count = kMany) const {
    std::vector<std::string> list;
    for (const Candidate& each : neighbour_plans(request, constraints, preset(text), count))
      list.push_back(each.name);
    return list;
  }
  PlanSearchResult result(const std::string& fixed, int64_t trials) const {
    return find_plan(request, {.constraints = constraints_of(4, false, fixed),
                               .sources = placement_searches(),
                               .local_search_trials = trials});
  }
};

TEST(NeighbourPlans, OfAPipelineBeginWithItsMicroBatchesAndItsSchedule) {
  EXPECT_THAT(ChangeCase().names("pp=4", constraints_of(4, false)),
              ElementsAre("pp=4, micro_batches=16", "pp=4, micro_batches=4", "pp=4, schedule=zb-h1",
                          "pp=4, bucket of 5 MiB", "pp=4, bucket of 125 MiB", "pp=4, not combined",
                          "pp=4, collective_matmul=auto"));
}

TEST(NeighbourPlans, OfResolvedShardingsForOneMicroBatchHaveNoFurtherOnes) {
  const ChangeCase given;
  Candidate pipeline = given.preset("pp=4,micro_batches=1");
  const auto names = [&] {
    std::vector<std::string> list;
    for (const Candidate& each :
         neighbour_plans(given.request, constraints_of(4, false), pipeline, kMany))
      list.push_back(each.name);
    return list;
  };
  EXPECT_THAT(names(), testing::Contains("pp=4,micro_batches=2"));
  pipeline.plan.shardings = Shardings();
  EXPECT_THAT(names(), Not(testing::Contains("pp=4,micro_batches=2")));
}

TEST(NeighbourPlans, OfOneMeshAreOfItsExchangesWhereNothingElseIsOpen) {
  EXPECT_THAT(ChangeCase().names("dp=4", constraints_of(4, false)),
              ElementsAre("dp=4, bucket of 5 MiB", "dp=4, bucket of 125 MiB", "dp=4, not combined",
                          "dp=4, collective_matmul=auto"));
}

// What the first change says is not true of the second one.
TEST(NeighbourPlans, OfAChangeAreNamedByTheLastOfEachDecision) {
  const ChangeCase given;
  const auto changed = [&](const Candidate& candidate, size_t index) {
    return neighbour_plans(given.request, constraints_of(4, false), candidate, kMany).at(index);
  };
  const Candidate bucket = changed(given.preset("pp=4,micro_batches=16,bucket_mib=25"), 3);
  EXPECT_EQ(bucket.name, "pp=4,micro_batches=16,bucket of 5 MiB");
  EXPECT_EQ(changed(bucket, 3).name, "pp=4,micro_batches=16,bucket of 1 MiB");
  EXPECT_EQ(changed(bucket, 0).name, "pp=4,micro_batches=32,bucket of 5 MiB");
  const Candidate apart = changed(bucket, 5);
  EXPECT_EQ(apart.name, "pp=4,micro_batches=16,bucket of 5 MiB, not combined");
  EXPECT_EQ(changed(apart, 5).name, "pp=4,micro_batches=16,bucket of 5 MiB, combined");
  Candidate second = given.preset("pp=4");
  second.name = "stages 4 x dp=1, micro_batches=8 (2)";
  EXPECT_EQ(changed(second, 0).name, "stages 4 x dp=1, micro_batches=16 (2)");
}

TEST(NeighbourPlans, LeaveWhatIsFixedAsItIs) {
  EXPECT_THAT(ChangeCase().names("pp=4,micro_batches=4,bucket_mib=25",
                                 constraints_of(4, false, "micro_batches=4,bucket_mib=25")),
              ElementsAre("pp=4,micro_batches=4,bucket_mib=25, schedule=zb-h1",
                          "pp=4,micro_batches=4,bucket_mib=25, not combined",
                          "pp=4,micro_batches=4,bucket_mib=25, collective_matmul=auto"));
}

// 64 micro-batches of a row each are the most of 64 rows.
TEST(NeighbourPlans, MicroBatchesDivideTheRows) {
  EXPECT_THAT(ChangeCase().names("pp=4,micro_batches=64", constraints_of(4, false), 2),
              ElementsAre("pp=4,micro_batches=32", "pp=4,micro_batches=64, schedule=zb-h1"));
}

// Those of the candidate have its decisions; evaluate() makes them anew.
TEST(NeighbourPlans, DoNotHaveTheShorterStepsOfTheCandidate) {
  const ChangeCase given;
  Candidate candidate = given.preset("pp=4");
  candidate.shorter.resize(2);
  for (const Candidate& each :
       neighbour_plans(given.request, constraints_of(4, false), candidate, kMany))
    EXPECT_TRUE(each.shorter.empty()) << each.name;
}

TEST(NeighbourPlans, HalfOfTwoMicroBatchesIsOneWithoutASchedule) {
  const ChangeCase given;
  const std::vector<Candidate> changes =
      neighbour_plans(given.request, constraints_of(4, false),
                      given.preset("pp=4,micro_batches=2,schedule=zb-h1"), 2);
  EXPECT_EQ(changes.at(1).plan.micro_batches, 1);
  EXPECT_EQ(changes.at(1).plan.schedule, PipelineKind::kOneForwardOneBackward);
  EXPECT_EQ(evaluate(given.request, changes).evaluated.size(), 2);
}

TEST(NeighbourPlans, OfOneMicroBatchTheScheduleIsNone) {
  EXPECT_THAT(ChangeCase().names("pp=4,micro_batches=1", constraints_of(4, false), 2),
              ElementsAre("pp=4,micro_batches=2", "pp=4,micro_batches=1, bucket of 5 MiB"));
}

TEST(NeighbourPlans, AreAtMostAsManyAsAreWanted) {
  EXPECT_EQ(ChangeCase().names("pp=4", constraints_of(4, false), 1).size(), 1);
  EXPECT_EQ(ChangeCase().names("pp=4", constraints_of(4, false), 0).size(), 0);
}

// The changes of a change are made beside it, and its decisions stay.
TEST(NeighbourPlans, OfASearchedPlanAreAlsoOfThePlacements) {
  const ChangeCase given;
  PlacementSource source;
  const PlanConstraints constraints = constraints_of(4, false);
  Candidate found = source(given.request, constraints, {}).at(0);
  found.plan.bucket = Bytes(1 << 20);
  const std::vector<Candidate> changed = placement_neighbours(given.request, constraints, found, 3);
  ASSERT_EQ(changed.size(), 3);
  for (const Candidate& each : changed) {
    EXPECT_NE(each.plan.shardings, found.plan.shardings);
    EXPECT_EQ(each.plan.bucket, found.plan.bucket);
    EXPECT_EQ(each.problem.value().changes.size(), 1);
  }
  const std::vector<Candidate> again =
      placement_neighbours(given.request, constraints, changed[1], 2);
  ASSERT_EQ(again.size(), 2);
  EXPECT_EQ(again[0].problem.value().changes.size(), 2);
  EXPECT_EQ(again[0].problem.value().changes[0], changed[1].problem.value().changes[0]);
  const Evaluations evaluations = evaluate(given.request, {changed[0], again[0]});
  EXPECT_EQ(evaluations.evaluated.size(), 2);  // they compile
}

TEST(Polish, OfAPipelineTriesTwiceAndHalfAsManyMicroBatches) {
  const ChangeCase given;
  const PlanSearchResult result = given.result("pp=4", 0);
  const Seconds step = result.candidates.at(result.best.value()).step();
  const Evaluations others = evaluate(
      given.request, {given.preset("pp=4"), given.preset("pp=4,micro_batches=16"),
                      given.preset("pp=4,micro_batches=4"), given.preset("pp=4,schedule=zb-h1")});
  ASSERT_EQ(others.evaluated.size(), 4);
  for (const EvaluatedCandidate& other : others.evaluated)
    EXPECT_LE(step, other.step()) << other.candidate.name;
  EXPECT_LT(step, others.evaluated[0].step());  // the preset of the grid
}

TEST(Polish, NeverMakesAPlanSlowerAndTriesNoMoreThanItMay) {
  const ChangeCase given;
  for (const char* fixed : {"", "tp=4", "pp=2"}) {
    const PlanSearchResult plain = given.result(fixed, 0), improved = given.result(fixed, 8);
    EXPECT_LE(improved.candidates.at(improved.best.value()).step(),
              plain.candidates.at(plain.best.value()).step());
    EXPECT_LE(improved.local_search_trials, 8);
    EXPECT_GT(improved.local_search_trials, 0);
    EXPECT_TRUE(improved.candidates.at(improved.best.value()).fits());
  }
}

TEST(Polish, OfTheSameInputsIsTheSame) {
  const ChangeCase given;
  const PlanSearchResult one = given.result("", 8), two = given.result("", 8);
  EXPECT_EQ(one.candidates.at(one.best.value()).candidate.name,
            two.candidates.at(two.best.value()).candidate.name);
  EXPECT_EQ(one.candidates.at(one.best.value()).program,
            two.candidates.at(two.best.value()).program);
}

TEST(Polish, KeepsWhatIsFixed) {
  const PlanSearchResult result = ChangeCase().result("pp=4,micro_batches=2", 8);
  EXPECT_EQ(result.candidates.at(result.best.value()).candidate.plan.micro_batches, 2);
}

/// Parameters of 64 MiB, which ranks of zero 3 gather while they compute for about ten times as
/// long.
struct WideCase {
  Graph graph = training_graph(
      network_of({.kind = "mlp", .context = 8, .layers = 4, .width = 4096, .dropout = 0}), {}, 4096,
      1);
  Cluster cluster = parse_cluster_line("8xa100-80g");
  PlanRequest request{graph, cluster};

  /// The best plan where nothing but this plan is tried.
  EvaluatedCandidate result(const std::string& preset, const std::string& fixed = "") const {
    const Candidate given{Candidate::Source::kCompared, preset,
                          preset_plan(parse_preset(preset), graph)};
    const PlanSearchResult result =
        find_plan(request, {.constraints = constraints_of(4, false, fixed),
                            .compared = {given},
                            .sources = {},
                            .tries_presets = false});
    return result.candidates.at(result.best.value());
  }
};

TEST(WiderPrefetch, IsChosenWhereExchangesLargerThanTheWindowWaitForTheirTurn) {
  const WideCase given;
  const EvaluatedCandidate narrow = given.result("dp=4,zero=3", "prefetch_mib=32"),
                           chosen = given.result("dp=4,zero=3");
  EXPECT_GT(chosen.candidate.plan.prefetch_window, chosen.traffic.largest_of_variables);
  EXPECT_EQ(narrow.candidate.plan.prefetch_window, kPrefetchWindow);
  EXPECT_LT(chosen.step(), narrow.step());
  EXPECT_TRUE(chosen.fits());
}

TEST(WiderPrefetch, IsNotTriedWhereEveryExchangeIsSmallerThanTheWindow) {
  const ChangeCase given;
  EXPECT_TRUE(
      with_wider_prefetch(constraints_of(4, false), given.preset("dp=4"), kPrefetchWindow).empty());
  EXPECT_EQ(with_wider_prefetch(constraints_of(4, false), given.preset("dp=4"),
                                kPrefetchWindow + Bytes(1))
                .size(),
            2);
}

TEST(WiderPrefetch, IsNotTriedWhereThePlanHasNone) {
  const ChangeCase given;
  EXPECT_TRUE(with_wider_prefetch(constraints_of(4, false), given.preset("dp=4,prefetch_mib=0"),
                                  Bytes(1 << 30))
                  .empty());
}

TEST(Polish, IsNothingWhereNoPlanFits) {
  ChangeCase given;
  ClusterDescription description = given.cluster.description();
  for (DeviceType& type : description.types) type.memory = Bytes(1 << 10);
  const Cluster small(description);
  const PlanSearchResult result =
      find_plan({given.graph, small},
                {.constraints = constraints_of(4, false), .sources = {}, .local_search_trials = 8});
  EXPECT_FALSE(result.best);
  EXPECT_EQ(result.local_search_trials, 0);
}

}  // namespace
}  // namespace tessera
