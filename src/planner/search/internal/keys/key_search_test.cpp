#include "planner/search/internal/keys/key_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "planner/search/find_plan.h"
#include "planner/search/internal/keys/key_changes.h"

namespace tessera {
namespace {

constexpr int64_t kUnlimited = int64_t{1} << 40;

struct KeySearchCase {
  Graph graph;
  Cluster cluster;
  PlanRequest request{graph, cluster};

  explicit KeySearchCase(const std::string& line, const char* family = "gpt", int64_t rows = 24)
      : graph(training_graph(
            network_of({.kind = family, .context = 32, .layers = 4, .width = 64, .dropout = 0}), {},
            rows, 1)),
        cluster(parse_cluster_line(line)) {}

  EvaluatedCandidate preset(const std::string& text) const {
    Candidate made{Candidate::Source::kPreset, text, preset_plan(parse_preset(text), graph)};
    made.zero = parse_preset(text).zero;
    return evaluate(request, {std::move(made)}).evaluated.at(0);
  }
};

/// The changes of one key that make a candidate faster.
std::vector<std::string> faster_changes(const KeySearchCase& given,
                                        const PlanConstraints& constraints,
                                        const EvaluatedCandidate& known) {
  std::vector<Candidate> candidates;
  for (const auto& changes : key_changes(given.request, constraints, known, KeyRange::kNearest))
    for (const KeyChange& change : changes)
      if (auto made = with_change(given.request, constraints, known.candidate, change))
        candidates.push_back(*std::move(made));
  std::vector<std::string> faster;
  for (const EvaluatedCandidate& each : evaluate(given.request, candidates).evaluated)
    if (each.fits() && obeys(each.candidate, constraints) &&
        each.step().value() < (1 - 2 * kSearchPolicy.faster_by) * known.step().value())
      faster.push_back(each.candidate.name);
  return faster;
}

TEST(KeySearch, EndsWhereNoChangeOfOneKeyIsFaster) {
  for (const char* cluster : {"4xa100-40g", "2x2xv100-16g;ib=10Gb"}) {
    const KeySearchCase given(cluster);
    const PlanConstraints constraints = constraints_of(4, false);
    for (const char* text : {"dp=4", "pp=4,micro_batches=4", "dp=2,tp=2", "pp=2,dp=2"}) {
      KeySearch search(given.request, constraints, {});
      const EvaluatedCandidate start = given.preset(text);
      int64_t work = kUnlimited;
      const std::optional<EvaluatedCandidate> found = search.better(start, work);
      EXPECT_TRUE(!found || found->step() < start.step());
      EXPECT_THAT(faster_changes(given, constraints, found.value_or(start)), testing::IsEmpty())
          << text << " on " << cluster << ", " << (found ? found->candidate.name : "as it is");
    }
  }
}

// Micro-batches, recompute and divided states need less memory.
TEST(KeySearch, OfACandidateThatDoesNotFitSavesMemory) {
  const KeySearchCase large("4xa100-40g", "gpt", 256);
  const Bytes need = large.preset("tp=4").fullest.memory.all();
  ClusterDescription description = large.cluster.description();
  for (DeviceType& type : description.types)
    type.memory = Bytes(type.reserve.value() + (need - type.reserve).value() / 4);
  KeySearchCase small("4xa100-40g", "gpt", 256);
  small.cluster = Cluster(description);
  const PlanConstraints constraints = constraints_of(4, false);
  const EvaluatedCandidate start = small.preset("tp=4");
  ASSERT_FALSE(start.fits());
  KeySearch search(small.request, constraints, {});
  int64_t work = kUnlimited;
  const std::optional<EvaluatedCandidate> found = search.better(start, work);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->fits()) << found->candidate.name;
}

TEST(KeySearch, KeepsWhatIsFixed) {
  const KeySearchCase given("4xa100-40g");
  const std::string fixed = "pp=2,dp=2,micro_batches=2,recompute=full";
  const PlanConstraints constraints = constraints_of(4, false, fixed);
  KeySearch search(given.request, constraints, {});
  int64_t work = kUnlimited;
  const std::optional<EvaluatedCandidate> found = search.better(given.preset(fixed), work);
  if (!found) GTEST_SKIP() << "no change is faster";
  EXPECT_EQ(found->candidate.plan.micro_batches, 2);
  EXPECT_EQ(found->candidate.plan.recompute.kind, Recompute::Kind::kFull);
  EXPECT_TRUE(obeys(found->candidate, constraints));
}

TEST(KeySearch, EndsWithItsWork) {
  const KeySearchCase given("4xa100-40g");
  const PlanConstraints constraints = constraints_of(4, false);
  KeySearch none(given.request, constraints, {}), some(given.request, constraints, {});
  int64_t no_work = 0, little_work = 1;
  EXPECT_FALSE(none.better(given.preset("dp=4"), no_work));
  EXPECT_EQ(none.trials(), 0);
  some.better(given.preset("dp=4"), little_work);
  EXPECT_GT(some.trials(), 0);
  EXPECT_LT(some.trials(), 20);
}

TEST(KeySearch, TriesNothingAfterItsEnd) {
  const KeySearchCase given("4xa100-40g");
  const PlanConstraints constraints = constraints_of(4, false);
  const EvaluationOptions over{.stop = [] { return true; }};
  KeySearch search(given.request, constraints, over);
  int64_t work = kUnlimited;
  EXPECT_FALSE(search.better(given.preset("dp=4"), work));
  EXPECT_EQ(search.trials(), 0);
}

// Of the best plan all keys of exchanges, memory and schedules were tried.
TEST(KeySearch, LeavesAPlanThatNoChangeOfOneKeyBeats) {
  for (const char* family : {"gpt", "mlp"}) {
    const KeySearchCase given("4xa100-40g", family);
    const PlanConstraints constraints = constraints_of(4, false);
    const PlanSearchResult result = find_plan(given.request, {.constraints = constraints});
    const EvaluatedCandidate& best = result.candidates.at(result.best.value());
    EXPECT_THAT(faster_changes(given, constraints, best), testing::IsEmpty())
        << best.candidate.name;
  }
}

// Keys that only presets have are of every plan.
TEST(FixedKeys, OfPresetsAreThoseOfTheBestPlan) {
  const KeySearchCase given("4xa100-40g");
  for (const char* fixed : {"zero=1", "zero=3", "fsdp=2,zero=3", "sequence_parallel=true",
                            "pp=2,chunks=2", "stage_layers=1+3", "master_weights=whole,zero=1"}) {
    const PlanConstraints constraints = constraints_of(4, false, fixed);
    const PlanSearchResult result = find_plan(given.request, {.constraints = constraints});
    ASSERT_TRUE(result.best) << fixed;
    const Preset wanted = parse_preset(fixed),
                 found = parse_preset(result.candidates[*result.best].candidate.name);
    EXPECT_EQ(found.zero, wanted.zero) << fixed;
    EXPECT_EQ(found.sequence_parallel, wanted.sequence_parallel) << fixed;
    EXPECT_EQ(found.chunks, wanted.chunks) << fixed;
    EXPECT_EQ(found.stage_layers, wanted.stage_layers) << fixed;
    EXPECT_EQ(found.master_weights, wanted.master_weights) << fixed;
  }
}

}  // namespace
}  // namespace tessera
