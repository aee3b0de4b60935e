#include "planner/search/find_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/presets.h"
#include "planner/search/testing/results.h"

namespace tessera {
namespace {

using testing::Contains;
using testing::Not;

Graph small_mlp(int64_t rows = 16) {
  const Network network = network_of({.kind = "mlp", .context = 8, .layers = 2, .width = 64});
  return training_graph(network, {}, rows, 1);
}

Graph find_plan_small_gpt() {
  const Network network = network_of(
      {.kind = "gpt", .vocabulary = 64, .context = 8, .layers = 1, .width = 32, .heads = 4});
  return training_graph(network, {}, 8, 1);
}

/// Four cores in one machine, with `memory` each.
Cluster cores(Bytes memory = Bytes(1 << 30)) {
  ClusterDescription description = parse_cluster_line("cpu:4").description();
  for (DeviceType& type : description.types) type.memory = memory;
  return Cluster(description);
}

PlanSearchResult result_for(const Graph& graph, const Cluster& cluster, PlanSearchOptions options) {
  return find_plan({graph, cluster}, options);
}

PlanSearchResult result_for(const Graph& graph, const Cluster& cluster, int ranks,
                            const std::string& fixed = "") {
  // The incumbents alone; placement_source_test.cpp has the search.
  return result_for(
      graph, cluster,
      {.constraints = constraints_of(ranks, false, fixed), .sources = {}, .excludes = false});
}

TEST(FindPlan, NoCandidateThatObeysIsFasterThanTheBestPlan) {
  for (const Graph& graph : {small_mlp(), find_plan_small_gpt()}) {
    const Cluster cluster = cores();
    const PlanSearchResult result = result_for(graph, cluster, 4);
    ASSERT_TRUE(result.best);
    EXPECT_EQ(best_of(result).ranks(), 4);
    for (const EvaluatedCandidate& candidate : result.candidates) {
      if (!candidate.fits() || candidate.ranks() != 4) continue;
      EXPECT_LE(best_of(result).step(), candidate.step()) << candidate.candidate.name;
    }
  }
}

TEST(FindPlan, ReportsEachStageAndTheBestStepAfterIt) {
  const Graph graph = find_plan_small_gpt();
  const Cluster cluster = cores();
  PlanSearchOptions options{.constraints = constraints_of(2, false)};
  options.sources = {
      {"own source", "a test", [](const auto&...) { return std::vector<Candidate>(); }}};
  const PlanSearchResult result = find_plan({graph, cluster}, options);
  const auto stage = [&](std::string_view name) {
    const auto found = std::ranges::find(result.stages, name, &SearchStageReport::name);
    EXPECT_NE(found, result.stages.end()) << name;
    return *found;
  };
  EXPECT_EQ(result.stages.front().name, "given");
  EXPECT_EQ(stage("given").evaluated, 1);
  EXPECT_FALSE(stage("first presets").has_run);  // the time is not limited
  EXPECT_TRUE(stage("own source").has_run);
  EXPECT_EQ(stage("own source").evaluated, 0);
  EXPECT_GT(stage("presets").evaluated, 0);
  EXPECT_EQ(stage("given").best, std::nullopt);  // one device, of two
  EXPECT_TRUE(stage("presets").best.has_value());
  EXPECT_FALSE(stage("nearest placements").has_run);  // a plan fits
  EXPECT_EQ(result.stages.back().best, result.candidates[*result.best].step());
}

// A search may take longer than there is time.
TEST(FindPlan, UnderALimitOfTimePresetsAreTriedBeforeTheSearches) {
  const Graph graph = find_plan_small_gpt();
  const Cluster cluster = cores();
  bool is_over = false;
  PlanSearchOptions options{.constraints = constraints_of(4, false)};
  options.sources = {{"test", "", [&](const auto&, const auto&, const auto&) {
                        is_over = true;
                        return std::vector<Candidate>();
                      }}};
  options.evaluation.stop = [&] { return is_over; };
  options.evaluation.has_time_limit = true;
  const PlanSearchResult result = result_for(graph, cluster, options);
  EXPECT_THAT(names_of(result), testing::IsSupersetOf({"one device", "dp=4", "tp=4"}));
  EXPECT_EQ(best_of(result).ranks(), 4);
}

TEST(FindPlan, OneDeviceDataAndTensorParallelismAreAlwaysCompared) {
  const Graph graph = find_plan_small_gpt();
  const Cluster cluster = cores();
  PlanSearchOptions options{.constraints = constraints_of(4, false)};
  options.max_presets = 1;
  options.sources = {};
  options.excludes = false;
  const PlanSearchResult result = result_for(graph, cluster, options);
  EXPECT_THAT(names_of(result), testing::IsSupersetOf({"one device", "dp=4", "tp=4"}));
}

Bytes min_need(const PlanSearchResult& result, int ranks) {
  Bytes smallest(std::numeric_limits<int64_t>::max());
  for (const EvaluatedCandidate& candidate : result.candidates)
    if (candidate.ranks() == ranks) smallest = std::min(smallest, candidate.fullest.memory.all());
  return smallest;
}

/// The candidate called `name` among those that were simulated.
const EvaluatedCandidate* find(const PlanSearchResult& result, const std::string& name) {
  for (const EvaluatedCandidate& candidate : result.candidates)
    if (candidate.candidate.name == name) return &candidate;
  return nullptr;
}

// Four stages of two layers wait for 3 of 8 + 3 micro-batches; eight stages of one layer, two on
// each device, for half of that.
TEST(FindPlan, APipelineMayHaveTwoStagesOnEachDevice) {
  const Network network = network_of(
      {.kind = "gpt", .vocabulary = 64, .context = 64, .layers = 8, .width = 64, .heads = 4});
  const Graph graph = training_graph(network, {}, 8, 1);
  ClusterDescription description = parse_cluster_line("4xv100-16g").description();
  description.types.front().cost.flops_per_second /= 1000;
  description.types.front().cost.bytes_per_second /= 1000;
  const Cluster cluster(description);
  const PlanSearchResult result = result_for(graph, cluster, 4, "pp=4");
  const EvaluatedCandidate& best = best_of(result);
  EXPECT_EQ(best.candidate.plan.meshes.size(), 8) << best.candidate.name;
  EXPECT_EQ(best.ranks(), 4);
  const EvaluatedCandidate* one_stage = find(result, "pp=4");
  ASSERT_TRUE(one_stage);
  EXPECT_LT(best.step().value(), 0.95 * one_stage->step().value()) << best.candidate.name;
}

TEST(FindPlan, OfAFixedScheduleEveryDeviceHasOneStage) {
  const Graph graph = find_plan_small_gpt();
  const Cluster cluster = cores();
  const PlanSearchResult result = result_for(graph, cluster, 2, "pp=2,schedule=zb-h1");
  EXPECT_EQ(best_of(result).candidate.plan.meshes.size(), 2);
}

TEST(FindPlan, TheSameInputsGiveTheSamePlan) {
  const Graph graph = small_mlp();
  const Cluster cluster = cores();
  const PlanSearchResult first = result_for(graph, cluster, 4),
                         second = result_for(graph, cluster, 4);
  EXPECT_EQ(names_of(first), names_of(second));
  EXPECT_EQ(to_json(to_document(best_of(first).candidate.plan, graph)),
            to_json(to_document(best_of(second).candidate.plan, graph)));
}

TEST(FindPlan, ExcludedCandidatesAreSlowerThanTheBestPlan) {
  for (const char* machines : {"8xa100-80g", "cpu:4"})
    for (const Graph& graph : {small_mlp(64), find_plan_small_gpt()}) {
      const Cluster cluster = parse_cluster_line(machines);
      PlanSearchOptions options{.constraints = constraints_of(4, false)};
      options.excludes = false;
      const PlanSearchResult all = result_for(graph, cluster, options);
      options.excludes = true;
      options.sources = all_searches();  // each is of one plan search
      const PlanSearchResult some = result_for(graph, cluster, options);
      EXPECT_TRUE(all.excluded.empty());
      EXPECT_EQ(best_of(some).candidate.name, best_of(all).candidate.name);
      EXPECT_EQ(best_of(some).step(), best_of(all).step());
      for (const ExcludedCandidate& excluded : some.excluded) {
        EXPECT_GT(excluded.bound, best_of(some).step()) << excluded.name;
        const EvaluatedCandidate* simulated = find(all, excluded.name);
        if (!simulated) continue;
        EXPECT_LE(excluded.bound, simulated->step()) << excluded.name;
      }
    }
}

TEST(FindPlan, AProgramWithoutDimsHasAPlan) {
  const Cluster cluster = cores();
  for (const char* text :
       {"input x: f32[]\ny = neg(x): f32[]\noutput y = y\n",
        "variable w: f32[] = constant(1.0)\nv = neg(w): f32[]\nnext w = v\n",
        "input x: f32[]\noutput x = x\n", "input x: f32[4]\ninput y: f32[2]\noutput y = y\n"})
    EXPECT_TRUE(result_for(parse_graph(text), cluster, 2).best) << text;
}

TEST(FindPlan, OfLargeProgramsFewerPresetsAreTried) {
  const Graph graph = find_plan_small_gpt();
  PlanSearchOptions options{.constraints = constraints_of(4, true), .sources = {}};
  options.excludes = false;
  const auto presets = [&] {
    const PlanSearchResult result = result_for(graph, cores(), options);
    return std::pair(std::ranges::count_if(result.candidates,
                                           [](const EvaluatedCandidate& each) {
                                             return each.candidate.source ==
                                                    Candidate::Source::kPreset;
                                           }) +
                         std::ssize(result.unusable),
                     result.left_out);
  };
  const auto [all, beyond] = presets();
  ASSERT_GT(all, kSearchPolicy.min_presets);
  options.max_preset_ops = 1;
  const auto [some, left_out] = presets();
  EXPECT_LT(some, all);
  EXPECT_GT(left_out, beyond);
}

TEST(FindPlan, NothingIsExcludedWhenNoPlanFits) {
  const Graph graph = find_plan_small_gpt();
  const Cluster cluster = cores(Bytes(1024));
  PlanSearchOptions options{.constraints = constraints_of(4, false)};
  options.sources = {};
  EXPECT_TRUE(result_for(graph, cluster, options).excluded.empty());
}

TEST(FindPlan, OneDeviceAndComparedPlansAreNeverExcluded) {
  const Graph graph = small_mlp(64);
  const Cluster cluster = cores();
  PlanSearchOptions options{.constraints = constraints_of(4, false)};
  Candidate slow{Candidate::Source::kCompared, "the serial plan again", serial_plan()};
  options.compared = {slow};
  EXPECT_THAT(names_of(result_for(graph, cluster, options)),
              testing::IsSupersetOf({"one device", "the serial plan again"}));
}

TEST(FindPlan, PartsOfAStepAddUpToIt) {
  const Graph graph = find_plan_small_gpt();
  const Cluster cluster = cores();
  for (const EvaluatedCandidate& candidate : result_for(graph, cluster, 4).candidates) {
    double sum = candidate.parts.compute.value() + candidate.parts.idle.value();
    for (const auto& [axes, time] : candidate.parts.exposed) sum += time.value();
    EXPECT_NEAR(sum, candidate.step().value(), 1e-6) << candidate.candidate.name;
  }
}

TEST(FindPlan, OfThoseThatFitAMemoryTheFastestIsTheBestPlan) {
  const Graph graph = find_plan_small_gpt();
  const Cluster large = cores();
  const Bytes smallest = min_need(result_for(graph, large, 4), 4);
  const Cluster small = cores(smallest);
  const PlanSearchResult result = result_for(graph, small, 4);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(best_of(result).fullest.memory.all(), smallest);
  for (const EvaluatedCandidate& candidate : result.candidates)
    EXPECT_EQ(candidate.fits(), candidate.fullest.missing() <= Bytes(0));
}

TEST(FindPlan, MicroBatchesAreTriedWhenNothingElseFits) {
  const Graph graph = find_plan_small_gpt();
  const Cluster large = cores();
  const Bytes smallest = min_need(result_for(graph, large, 4, "pp=1"), 4);
  const Cluster small = cores(smallest - Bytes(1));
  const PlanSearchResult result = result_for(graph, small, 4, "pp=1");
  ASSERT_TRUE(result.best);
  EXPECT_TRUE(std::ranges::any_of(result.candidates, [](const EvaluatedCandidate& candidate) {
    return candidate.fits() && candidate.candidate.plan.micro_batches > 1;
  }));
  EXPECT_LT(best_of(result).fullest.memory.all(), smallest);
}

TEST(FindPlan, RecomputeAndZeroAreTriedForFasterPresetsThatDoNotFit) {
  const Graph graph = find_plan_small_gpt();
  const Cluster large = cores();
  // Data parallelism of one micro-batch does not fit, and is faster than with more of them.
  const std::string fixed = "dp=4,micro_batches=1";
  const Bytes smallest = min_need(result_for(graph, large, 4, fixed), 4);
  const Cluster small = cores(smallest - Bytes(1));
  const PlanSearchResult result = result_for(graph, small, 4, fixed);
  ASSERT_TRUE(result.best);
  EXPECT_TRUE(best_of(result).fits());
  const std::vector<std::string> names = names_of(result);
  EXPECT_TRUE(std::ranges::any_of(
      names, [](const std::string& name) { return name.find("recompute=") != std::string::npos; }));
  EXPECT_TRUE(std::ranges::any_of(
      names, [](const std::string& name) { return name.find("zero=") != std::string::npos; }));
}

TEST(FindPlan, ZeroTwoIsTriedOfSeveralMicroBatches) {
  const Graph graph = find_plan_small_gpt();
  const Cluster large = cores();
  const auto is_tried = [&](const std::string& fixed) {
    const Bytes smallest = min_need(result_for(graph, large, 4, fixed), 4);
    const Cluster small = cores(smallest - Bytes(1));
    const std::vector<std::string> names = names_of(result_for(graph, small, 4, fixed));
    return std::ranges::any_of(
        names, [](const std::string& name) { return name.find("zero=2") != std::string::npos; });
  };
  EXPECT_TRUE(is_tried("dp=4,micro_batches=2"));
  // There are no sums of gradients to divide.
  EXPECT_FALSE(is_tried("dp=4,micro_batches=1"));
}

/// A preset on four ranks without zero and recompute.
bool is_plain(const EvaluatedCandidate& candidate) {
  return candidate.candidate.source == Candidate::Source::kPreset && candidate.ranks() == 4 &&
         parse_preset(candidate.candidate.name).zero == 0 &&
         candidate.candidate.plan.recompute.kind == Recompute::Kind::kNone;
}

/// The first one that fits: candidates are in ascending order of the step.
const EvaluatedCandidate& fastest_plain(const PlanSearchResult& result) {
  return *std::ranges::find_if(result.candidates, [](const EvaluatedCandidate& candidate) {
    return is_plain(candidate) && candidate.fits();
  });
}

TEST(FindPlan, FixedRecomputeIsThatOfEveryCandidate) {
  const Graph graph = find_plan_small_gpt();
  const Cluster cluster = cores();
  const PlanSearchResult result = result_for(graph, cluster, 4, "recompute=full");
  ASSERT_TRUE(result.best);
  for (const EvaluatedCandidate& candidate : result.candidates) {
    if (candidate.candidate.source == Candidate::Source::kOneDevice) continue;
    EXPECT_EQ(candidate.candidate.plan.recompute.kind, Recompute::Kind::kFull)
        << candidate.candidate.name;
  }
}

TEST(FindPlan, MicroBatchesAreTriedForFasterPresetsThatDoNotFit) {
  const Graph graph = find_plan_small_gpt();
  const Cluster large = cores();
  const PlanSearchResult all = result_for(graph, large, 4);
  const EvaluatedCandidate& fastest = fastest_plain(all);
  const Cluster small = cores(fastest.fullest.memory.all() - Bytes(1));
  const PlanSearchResult result = result_for(graph, small, 4);
  EXPECT_THAT(names_of(result), Contains(fastest.candidate.name + ",micro_batches=2"));
}

TEST(FindPlan, WithoutMemoryThereIsNoResultAndTheNearestComesFirst) {
  const Graph graph = find_plan_small_gpt();
  const Cluster cluster = cores(Bytes(1024));
  const PlanSearchResult result = result_for(graph, cluster, 4);
  EXPECT_FALSE(result.best);
  ASSERT_FALSE(result.candidates.empty());
  for (const EvaluatedCandidate& candidate : result.candidates) {
    EXPECT_EQ(candidate.fullest.missing(), candidate.fullest.memory.all() - Bytes(1024));
    EXPECT_GE(candidate.fullest.missing(), result.candidates.front().fullest.missing());
  }
}

TEST(FindPlan, FixedDegreesHoldForTheBestPlan) {
  const Graph graph = find_plan_small_gpt();
  const Cluster cluster = cores();
  for (const char* fixed : {"tp=2", "dp=1", "pp=2", "tp=2,pp=1,sp=1"}) {
    const PlanConstraints constraints = constraints_of(4, false, fixed);
    const PlanSearchResult result = result_for(graph, cluster, 4, fixed);
    ASSERT_TRUE(result.best) << fixed;
    EXPECT_TRUE(obeys(best_of(result).candidate.plan, constraints)) << fixed;
  }
  const PlanSearchResult whole = result_for(graph, cluster, 4, "dp=2,tp=2");
  EXPECT_THAT(best_of(whole).candidate.name, testing::StartsWith("dp=2,tp=2"));
}

TEST(FindPlan, FixedDecisionsHoldForEveryPreset) {
  const Graph graph = small_mlp();
  const Cluster cluster = cores();
  for (const EvaluatedCandidate& candidate :
       result_for(graph, cluster, 4, "micro_batches=4").candidates)
    EXPECT_EQ(candidate.candidate.plan.micro_batches, 4) << candidate.candidate.name;
}

TEST(FindPlan, DegreesThatDoNotDivideTheRanksAreRefused) {
  EXPECT_THROW(constraints_of(4, false, "tp=3"), UserError);
  EXPECT_THROW(constraints_of(4, true, "tp=8"), UserError);
  EXPECT_NO_THROW(constraints_of(4, true, "tp=3"));
  EXPECT_NO_THROW(constraints_of(4, false, "dp=rest,tp=2"));
}

TEST(FindPlan, FewerRanksAreUsedOnlyWhenTheyAreAllowed) {
  const Graph graph = small_mlp(2);  // so little work that exchanges cost more than they save
  ClusterDescription slow = cores().description();
  slow.machines.front().levels.front().level.link = {Seconds(1), 1e6};
  const Cluster cluster(slow);
  const PlanSearchResult exact = result_for(graph, cluster, 2);
  EXPECT_EQ(best_of(exact).ranks(), 2);
  const PlanSearchResult free =
      result_for(graph, cluster, {.constraints = constraints_of(2, true)});
  EXPECT_EQ(best_of(free).candidate.name, "one device");
  EXPECT_LE(best_of(free).step(), best_of(exact).step());
}

TEST(FindPlan, ComparedPlansAreListedAndWinWhenTheyAreFaster) {
  const Graph graph = small_mlp();
  const Cluster cluster = cores();
  const auto compared = [&](const std::string& preset) {
    return Candidate{Candidate::Source::kCompared, "mine.json",
                     preset_plan(parse_preset(preset), graph)};
  };
  // Only dp=4 and tp=4 are in the grid.
  PlanSearchOptions options{.constraints = constraints_of(4, false)};
  options.excludes = false;
  options.max_presets = 1;
  options.sources = {};
  const PlanSearchResult without = result_for(graph, cluster, options);
  const std::string best = best_of(without).candidate.name;
  options.compared = {compared(best)};
  const PlanSearchResult same = result_for(graph, cluster, options);
  EXPECT_THAT(names_of(same), testing::IsSupersetOf({std::string("mine.json"), best}));
  options.compared = {compared("dp=2,tp=2")};
  const PlanSearchResult other = result_for(graph, cluster, options);
  EXPECT_THAT(names_of(other), Contains("mine.json"));
  EXPECT_LE(best_of(other).step(), best_of(without).step());
}

/// A plan of data parallelism whose ranks need the devices `hardware`.
Candidate compared_on(const std::string& hardware, const Graph& graph, const char* preset) {
  Plan plan = preset_plan(parse_preset(preset), graph);
  for (NamedMesh& mesh : plan.meshes) mesh.hardware = hardware;
  return {Candidate::Source::kCompared, hardware, std::move(plan)};
}

TEST(FindPlan, RanksThatNeedHardwareAreSimulatedOnIt) {
  // The devices of n0 are v100, those of n1 the slower p100.
  const Graph graph = small_mlp();
  const Cluster cluster = parse_cluster_line("2xv100+2xp100");
  for (const char* preset : {"dp=2", "tp=2"}) {
    PlanSearchOptions options{.constraints = constraints_of(2, false)};
    options.sources = {};
    options.compared = {compared_on("p100", graph, preset), compared_on("v100-16g", graph, preset),
                        compared_on("gpu", graph, preset)};
    const PlanSearchResult result = result_for(graph, cluster, options);
    const EvaluatedCandidate *slow = find(result, "p100"), *fast = find(result, "v100-16g"),
                             *any = find(result, "gpu");
    ASSERT_TRUE(slow && fast && any) << preset;
    EXPECT_THAT(slow->fullest.device, testing::StartsWith("n1/")) << preset;
    EXPECT_THAT(fast->fullest.device, testing::StartsWith("n0/")) << preset;
    EXPECT_GT(slow->parts.compute, fast->parts.compute) << preset;
    EXPECT_EQ(any->step(), fast->step()) << preset;
    EXPECT_NE(slow->candidate.plan.cost, fast->candidate.plan.cost) << preset;
  }
}

TEST(FindPlan, HardwareThatTheClusterLacksIsNoCandidate) {
  const Graph graph = small_mlp();
  const Cluster cluster = cores();
  PlanSearchOptions options{.constraints = constraints_of(2, false)};
  options.sources = {};
  options.compared = {compared_on("npu", graph, "dp=2")};
  const PlanSearchResult result = result_for(graph, cluster, options);
  EXPECT_EQ(find(result, "npu"), nullptr);
  EXPECT_THAT(result.unusable, Contains(testing::Field(&UnusableCandidate::reason,
                                                       testing::HasSubstr("has 0 such devices"))));
}

TEST(FindPlan, ASourceSeesTheIncumbentsAndAddsCandidates) {
  const Graph graph = find_plan_small_gpt();
  const Cluster cluster = cores();
  PlanSearchOptions options{.constraints = constraints_of(4, false)};
  options.max_presets = 1;
  options.excludes = false;
  options.compared = {
      {Candidate::Source::kCompared, "mine.json", preset_plan(parse_preset("dp=4"), graph)}};
  std::string seen;
  options.sources = {{"test", "",
                      [&](const PlanRequest& request, const PlanConstraints&,
                          const PlanSearchResult& known) -> std::vector<Candidate> {
                        seen = known.candidates.at(known.best.value()).candidate.name;
                        return {{Candidate::Source::kSearch, "found",
                                 preset_plan(parse_preset("dp=2,tp=2"), request.graph)}};
                      }}};
  const PlanSearchResult result = result_for(graph, cluster, options);
  EXPECT_EQ(seen, "mine.json");
  ASSERT_NE(result.find(Candidate::Source::kSearch), nullptr);
  EXPECT_EQ(result.find(Candidate::Source::kSearch)->candidate.name, "found");
}

// The gradients of a layer are exchanged while the kernels of the layer before run, unless the
// thread that computes exchanges, too.
TEST(FindPlan, ARequestSaysWhetherExchangesHideBehindKernels) {
  const Network network =
      network_of({.kind = "mlp", .context = 8, .layers = 4, .width = 512, .dropout = 0});
  const Graph graph = training_graph(network, {}, 512, 1);
  const auto step_on = [&](const char* line, std::optional<bool> prefetches) {
    const Cluster cluster = parse_cluster_line(line);
    const PlanRequest request{.graph = graph, .cluster = cluster, .prefetches = prefetches};
    Plan plan = preset_plan(parse_preset("dp=2"), graph);
    plan.bucket = Bytes(1 << 20);
    return evaluate(request, {{Candidate::Source::kPreset, "dp=2", plan}}).evaluated.at(0).step();
  };
  EXPECT_LT(step_on("2xa100", {}), step_on("2xa100", false));
  EXPECT_EQ(step_on("2xa100", {}), step_on("2xa100", true));
  EXPECT_EQ(step_on("cpu:2", {}), step_on("cpu:2", false));
}

// Where launches are most of the time, eight micro-batches take eight times as long as one.
TEST(FindPlan, APipelineIsTriedWithOneMicroBatch) {
  ClusterDescription description = cores().description();
  for (DeviceType& type : description.types) type.cost.launch = Seconds(0.01);
  const Cluster cluster(description);
  for (const Graph& graph : {small_mlp(64), find_plan_small_gpt()}) {
    const PlanSearchResult result = result_for(graph, cluster, 4, "pp=4");
    EXPECT_EQ(best_of(result).candidate.plan.micro_batches, 1);
    EXPECT_EQ(best_of(result).candidate.plan.meshes.size(), 4);
  }
}

TEST(FindPlan, MicroBatchesThatAreFixedStay) {
  const Graph graph = small_mlp(64);
  const PlanSearchResult result = result_for(graph, cores(), 4, "pp=4,micro_batches=4");
  for (const EvaluatedCandidate& candidate : result.candidates)
    EXPECT_EQ(candidate.candidate.plan.micro_batches, 4) << candidate.candidate.name;
}

TEST(FindPlan, PresetsMayBeLeftOut) {
  const Graph graph = small_mlp();
  const Cluster cluster = cores();
  const PlanSearchResult result =
      result_for(graph, cluster, {.constraints = constraints_of(4, false), .tries_presets = false});
  EXPECT_EQ(result.find(Candidate::Source::kPreset), nullptr);
  EXPECT_EQ(best_of(result).candidate.source, Candidate::Source::kSearch);
}

TEST(FindPlan, CandidatesOfOneProgramAreOne) {
  const Graph graph = small_mlp();
  const Cluster cluster = cores();
  PlanSearchOptions options{.constraints = constraints_of(4, false)};
  options.excludes = false;
  options.sources = {{"test", "",
                      [](const PlanRequest& request, const PlanConstraints&,
                         const PlanSearchResult&) -> std::vector<Candidate> {
                        return {{Candidate::Source::kSearch, "again",
                                 preset_plan(parse_preset("dp=4"), request.graph)}};
                      }}};
  EXPECT_THAT(names_of(result_for(graph, cluster, options)), Not(Contains("again")));
}

TEST(FindPlan, AnEarlierPlanIsListedWhereItsProgramIsNew) {
  const Graph graph = small_mlp();
  const Cluster cluster = cores();
  const auto with_earlier = [&](const char* preset, int64_t presets) {
    PlanSearchOptions options{.constraints = constraints_of(4, false)};
    options.excludes = false;
    options.max_presets = presets;
    options.sources = {{"test", "",
                        [&](const PlanRequest& request, const PlanConstraints&,
                            const PlanSearchResult&) -> std::vector<Candidate> {
                          return {{Candidate::Source::kCached, "earlier",
                                   preset_plan(parse_preset(preset), request.graph)}};
                        }}};
    return names_of(result_for(graph, cluster, options));
  };
  EXPECT_THAT(with_earlier("dp=2,tp=2", 1), Contains("earlier")) << "the grid is dp=4 and tp=4";
  EXPECT_THAT(with_earlier("dp=2,tp=2", 32), Not(Contains("earlier"))) << "a preset is the same";
  EXPECT_THAT(with_earlier("dp=2,tp=2", 32), Contains("dp=2,tp=2"));
}

TEST(FindPlan, WhatIsNotTriedIsCounted) {
  const Graph graph = small_mlp();
  const Cluster cluster = cores();
  PlanSearchOptions options{.constraints = constraints_of(4, false)};
  options.sources = {};
  options.evaluation.stop = [calls = 0]() mutable { return ++calls > 2; };
  const PlanSearchResult result = result_for(graph, cluster, options);
  EXPECT_GT(result.not_tried, 0);
  EXPECT_LE(result.candidates.size() + result.unusable.size(), 2U + result.unusable.size());
}

TEST(FindPlan, NoSearchBeginsWhenTheTimeIsOver) {
  const Graph graph = small_mlp();
  const Cluster cluster = cores();
  for (bool is_over : {false, true}) {
    int searches = 0;
    PlanSearchOptions options{.constraints = constraints_of(4, false)};
    options.sources = {
        {"test", "", [&](const PlanRequest&, const PlanConstraints&, const PlanSearchResult&) {
           ++searches;
           return std::vector<Candidate>();
         }}};
    options.tries_presets = false;
    options.evaluation.stop = [&] { return is_over; };
    const PlanSearchResult result = result_for(graph, cluster, options);
    EXPECT_EQ(searches, is_over ? 0 : 1);
    EXPECT_EQ(result.not_tried, is_over ? 2 : 0) << "one device and the search";
  }
}

TEST(FindPlan, AnImpossiblePresetIsNoCandidateAndHasAReason) {
  const Network network = network_of({.kind = "image_mlp", .width = 64});
  const Graph graph = training_graph(network, {}, 16, 1);
  const Cluster cluster = cores();
  const PlanSearchResult result = result_for(graph, cluster, 4);
  ASSERT_TRUE(result.best);
  ASSERT_FALSE(result.unusable.empty());
  for (const UnusableCandidate& unusable : result.unusable) {
    EXPECT_THAT(names_of(result), Not(Contains(unusable.name)));
    EXPECT_THAT(unusable.reason, testing::HasSubstr(unusable.name));
  }
}

/// Two products and a loss, whose names are those of `names`.
std::string two_products(const std::vector<std::string>& names) {
  const std::string& x = names[0];
  return "input " + x + ": f32[8,64]\n" + "variable " + names[1] +
         ": f32[64,256] = normal(0.0, 0.02)\n" + "variable " + names[2] +
         ": f32[256,64] = normal(0.0, 0.02)\n" + names[3] + " = dot_general(" + x + ", " +
         names[1] + ") {spec=\"bi,io->bo\"}: f32[8,256]\n" + names[4] + " = tanh(" + names[3] +
         "): f32[8,256]\n" + names[5] + " = dot_general(" + names[4] + ", " + names[2] +
         ") {spec=\"bi,io->bo\"}: f32[8,64]\n" + names[6] + " = reduce(" + names[5] +
         ") {dims=[0, 1], op=\"sum\"}: f32[]\n" + "output loss = " + names[6] + "\n";
}

TEST(FindPlan, NamesDoNotCount) {
  const std::vector<std::string> plain{"x", "up", "down", "a", "b", "c", "sum"};
  const std::vector<std::string> other{"zebra", "apple", "tea", "q9", "m.n", "head", "body"};
  const Graph graph = parse_graph(two_products(plain)), renamed = parse_graph(two_products(other));
  const Cluster cluster = cores();
  const PlanSearchResult one = result_for(graph, cluster, 4), two = result_for(renamed, cluster, 4);
  EXPECT_EQ(names_of(one), names_of(two));
  EXPECT_EQ(best_of(one).step(), best_of(two).step());
  const auto marks = [](const EvaluatedCandidate& candidate,
                        const std::vector<std::string>& names) {
    std::vector<std::string> texts;
    for (const Mark& mark : candidate.candidate.plan.marks) {
      const auto at = std::ranges::find(names, mark.pattern) - names.begin();
      texts.push_back(std::to_string(at) + " " + mark.placement);
    }
    return texts;
  };
  EXPECT_EQ(marks(best_of(one), plain), marks(best_of(two), other));
}

}  // namespace
}  // namespace tessera
