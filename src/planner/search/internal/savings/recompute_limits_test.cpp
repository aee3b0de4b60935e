#include "planner/search/internal/savings/recompute_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "planner/search/find_plan.h"
#include "planner/search/testing/results.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr Bytes kPlenty{1 << 30};

/// A GPT of four layers, most of whose memory are activations, on four cores.
struct Case {
  explicit Case(Bytes memory)
      : cluster([&] {
          ClusterDescription description = parse_cluster_line("cpu:4").description();
          for (DeviceType& type : description.types) type.memory = memory;
          return Cluster(std::move(description));
        }()) {}

  Graph graph = training_graph(
      network_of(
          {.kind = "gpt", .vocabulary = 64, .context = 64, .layers = 4, .width = 32, .heads = 4}),
      {}, 16, 1);
  Cluster cluster;
  PlanRequest request{graph, cluster};

  Candidate preset(const std::string& text,
                   Candidate::Source source = Candidate::Source::kPreset) const {
    return {source, text, preset_plan(parse_preset(text), graph)};
  }
  EvaluatedCandidate evaluated(const std::string& text) const {
    return evaluate(request, {preset(text)}).evaluated.at(0);
  }
  PlanSearchResult result(const std::string& fixed, PlanSearchOptions options) const {
    options.constraints = constraints_of(4, false, fixed);
    return find_plan(request, options);
  }
};

Bytes recompute_limits_need_of(const std::string& preset) {
  return Case(kPlenty).evaluated(preset).fullest.memory.all();
}

/// As much memory beyond what selective needs as a part of what keeping everything needs more.
Bytes memory_between(const std::string& preset, double part) {
  const Bytes smallest = recompute_limits_need_of(preset + ",recompute=selective"),
              largest = recompute_limits_need_of(preset);
  return smallest +
         Bytes(static_cast<int64_t>(part * static_cast<double>((largest - smallest).value())));
}

constexpr const char* kOneMicroBatch = "dp=4,micro_batches=1";

TEST(RecomputeLimits, OfAPresetThatDoesNotFitAreFasterThanSelectiveWhereMemoryIsLeft) {
  for (const double part : {0.3, 0.6}) {
    SCOPED_TRACE(part);
    const Case given(memory_between(kOneMicroBatch, part));
    const PlanSearchResult result =
        given.result(kOneMicroBatch, {.constraints = {}, .sources = {}});
    const EvaluatedCandidate& best = best_of(result);
    EXPECT_THAT(best.candidate.name, HasSubstr(",recompute=auto,activation_mib="));
    EXPECT_TRUE(best.fits());
    EXPECT_LT(best.step(),
              given.evaluated(kOneMicroBatch + std::string(",recompute=selective")).step());
    // The name is that of a preset.
    EXPECT_EQ(given.evaluated(best.candidate.name).program, best.program);
  }
}

// What selective leaves of the memory is used.
TEST(RecomputeLimits, FillTheMemory) {
  const Case given(memory_between(kOneMicroBatch, 0.6));
  const EvaluatedCandidate best =
      best_of(given.result(kOneMicroBatch, {.constraints = {}, .sources = {}}));
  EXPECT_LT(static_cast<double>(
                recompute_limits_need_of("dp=4,micro_batches=1,recompute=selective").value()),
            0.95 * static_cast<double>(given.cluster.type(0).memory.value()));
  EXPECT_GT(static_cast<double>(best.fullest.memory.all().value()),
            0.95 * static_cast<double>(given.cluster.type(0).memory.value()));
}

TEST(RecomputeLimits, OfAPipelineOfTheSearchAreTriedToo) {
  const std::string fixed = "pp=2,dp=2,micro_batches=4";
  const Case given(memory_between(fixed, 0.5));
  const PlanSearchResult result = given.result(fixed, {.constraints = {}, .tries_presets = false});
  EXPECT_THAT(names_of(result),
              Contains(AllOf(HasSubstr("stages "), HasSubstr(", recompute=auto, "
                                                             "activation_mib="))));
  const EvaluatedCandidate& best = best_of(result);
  EXPECT_THAT(best.candidate.name, HasSubstr("recompute=auto"));
  // Its shardings say what is computed again.
  EXPECT_EQ(best.candidate.plan.recompute.kind, Recompute::Kind::kPatterns);
  EXPECT_TRUE(best.candidate.plan.shardings);
}

TEST(RecomputeLimits, OfAPlanOfTheUserAreNoPlanOfTheUser) {
  const Case given(memory_between(kOneMicroBatch, 0.5));
  PlanSearchOptions options{.constraints = {}, .sources = {}, .tries_presets = false};
  Candidate compared = given.preset(kOneMicroBatch, Candidate::Source::kCompared);
  compared.name = "a.json";
  options.compared = {std::move(compared)};
  const EvaluatedCandidate best = best_of(given.result("", options));
  EXPECT_THAT(best.candidate.name, HasSubstr("a.json, recompute=auto, activation_mib="));
  EXPECT_EQ(to_text(best.candidate.source), "memory-saving");
}

TEST(RecomputeLimits, OfOneDeviceAreAPreset) {
  const Case given(memory_between("dp=1", 0.5));
  const PlanSearchResult result =
      find_plan(given.request, {.constraints = constraints_of(1, false), .sources = {}});
  EXPECT_THAT(best_of(result).candidate.name, HasSubstr("dp=1,recompute=auto,activation_mib="));
}

TEST(RecomputeLimits, AreNotTriedWhereMemoryDoesNotBind) {
  const Case given(kPlenty);
  PlanSearchOptions options{.constraints = constraints_of(4, false), .sources = {}};
  const PlanSearchResult result = find_plan(given.request, options);
  int evaluated = 0;
  options.evaluation.progress = [&](const std::string&) { ++evaluated; };
  const Evaluations found =
      with_recompute_limits(given.request, options.constraints, result, options.evaluation, true);
  EXPECT_TRUE(found.evaluated.empty());
  EXPECT_EQ(evaluated, 0);
}

TEST(RecomputeLimits, AreNotTriedWhereRecomputeIsFixed) {
  const Case given(memory_between(kOneMicroBatch, 0.5));
  for (const char* fixed : {"dp=4,micro_batches=1,recompute=selective", "dp=4,recompute=none"})
    EXPECT_THAT(names_of(given.result(fixed, {.constraints = {}, .sources = {}})),
                Not(Contains(HasSubstr("recompute=auto"))));
}

// Presets say thousandths of a MiB, so that a few bytes would be no limit.
TEST(RecomputeLimits, OfAFewBytesAreNotTried) {
  constexpr Bytes kFew{500};
  const Case plenty(kPlenty);
  Plan plan = plenty.preset(kOneMicroBatch).plan;
  plan.recompute = {Recompute::Kind::kAuto, {}, kPlenty};
  const Bytes kept = recompute_decision(plenty.graph, plan).kept.front();
  const Case given(recompute_limits_need_of(kOneMicroBatch) - kept + kFew);
  EXPECT_NO_THROW(given.result(kOneMicroBatch, {.constraints = {}, .sources = {}}));
}

TEST(RecomputeLimits, ThatAreTooSmallMakeAPlanImpossible) {
  const Case given(kPlenty);
  const Evaluations found =
      evaluate(given.request, {given.preset("dp=4,recompute=auto,activation_mib=0.001")});
  ASSERT_EQ(found.unusable.size(), 1U);
  EXPECT_THAT(found.unusable.front().reason, HasSubstr("a rank keeps at least"));
}

// The same plans are the best ones whether others are excluded by their bounds or not.
TEST(RecomputeLimits, DoNotDependOnWhatIsExcluded) {
  for (const double part : {0.3, 0.7}) {
    const Case given(memory_between(kOneMicroBatch, part));
    const PlanSearchResult result = given.result("", {.constraints = {}, .sources = {}}),
                           all = given.result(
                               "", {.constraints = {}, .sources = {}, .excludes = false});
    EXPECT_EQ(best_of(result).step(), best_of(all).step());
  }
}

}  // namespace
}  // namespace tessera
