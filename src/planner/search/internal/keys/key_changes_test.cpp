#include "planner/search/internal/keys/key_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "planner/search/internal/sources/stage_plans.h"
#include "planner/search/sources/placement_source.h"

namespace tessera {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

/// Four layers on four accelerators.
struct KeyCase {
  Graph graph = training_graph(
      network_of({.kind = "gpt", .context = 32, .layers = 4, .width = 64, .dropout = 0}), {}, 24,
      1);
  Cluster cluster = parse_cluster_line("4xa100-40g");
  PlanRequest request{graph, cluster};

  EvaluatedCandidate evaluated(Candidate candidate) const {
    return evaluate(request, {std::move(candidate)}).evaluated.at(0);
  }
  EvaluatedCandidate preset(const std::string& text) const {
    Candidate made{Candidate::Source::kPreset, text, preset_plan(parse_preset(text), graph)};
    made.zero = parse_preset(text).zero;
    return evaluated(std::move(made));
  }
  /// The values of a key that are tried: "4", or "4 8" of several keys; "" is the default.
  std::vector<std::string> values(const EvaluatedCandidate& known, std::string_view key,
                                  const std::string& fixed = "",
                                  KeyRange range = KeyRange::kAll) const {
    std::vector<std::string> list;
    for (const auto& changes : key_changes(request, constraints_of(4, false, fixed), known, range))
      for (const KeyChange& change : changes)
        if (change.values.front().first == key) list.push_back(change.values.front().second);
    return list;
  }
  std::string name(const EvaluatedCandidate& known, const KeyChange& change) const {
    const auto made = with_change(request, constraints_of(4, false), known.candidate, change);
    return made ? made->name : "none";
  }
};

TEST(KeyChanges, OfAPresetAreOfAllItsKeys) {
  const KeyCase given;
  const EvaluatedCandidate known = given.preset("pp=2,dp=2,micro_batches=4");
  EXPECT_THAT(given.values(known, "zero"), UnorderedElementsAre("1", "2", "3"));
  EXPECT_THAT(given.values(known, "micro_batches"), ElementsAre("1", "2", "3", "6", "8", "12"));
  EXPECT_THAT(given.values(known, "recompute"), ElementsAre("selective", "full"));
  EXPECT_THAT(given.values(known, "schedule"), Contains("zb-h1"));
  EXPECT_THAT(given.values(known, "schedule"), Contains("zb-v"));
  EXPECT_THAT(given.values(known, "stage_layers"), UnorderedElementsAre("1+3", "3+1"));
  EXPECT_THAT(given.values(known, "all_reduce"), testing::SizeIs(3));
  EXPECT_THAT(given.values(known, "bucket_mib"), ElementsAre("1", "5", "100"));
  EXPECT_THAT(given.values(known, "pp"), Not(IsEmpty()));
}

TEST(KeyChanges, OfNumbersMayBeTheNearestAlone) {
  const KeyCase given;
  const EvaluatedCandidate known = given.preset("pp=2,dp=2,micro_batches=4");
  EXPECT_THAT(given.values(known, "micro_batches", "", KeyRange::kNearest),
              ElementsAre("2", "3", "6", "8"));
  EXPECT_THAT(given.values(known, "bucket_mib", "", KeyRange::kNearest), ElementsAre("5", "100"));
}

TEST(KeyChanges, LeaveWhatIsFixedAsItIs) {
  const KeyCase given;
  const std::string fixed = "pp=2,dp=2,micro_batches=4,zero=1,schedule=zb-h1,bucket_mib=5";
  const EvaluatedCandidate known = given.preset(fixed);
  for (const std::string_view key : {"pp", "dp", "zero", "micro_batches", "schedule", "bucket_mib"})
    EXPECT_THAT(given.values(known, key, fixed), IsEmpty()) << key;
  EXPECT_THAT(given.values(known, "recompute", fixed), Not(IsEmpty()));
}

// A change of one key may take another one with it, which then must not be fixed.
TEST(KeyChanges, DoNotRemoveAFixedKey) {
  const KeyCase given;
  const std::string fixed = "schedule=zb-h1";
  EXPECT_THAT(
      given.values(given.preset("pp=4,micro_batches=2,schedule=zb-h1"), "micro_batches", fixed),
      Not(Contains("1")));
}

TEST(KeyChanges, AreSaidByTheNameWhichStaysAPreset) {
  const KeyCase given;
  const EvaluatedCandidate known = given.preset("dp=4,bucket_mib=5");
  EXPECT_EQ(given.name(known, {{{"bucket_mib", "1"}}}), "dp=4,bucket_mib=1");
  EXPECT_EQ(given.name(known, {{{"bucket_mib", ""}}}), "dp=4");
  EXPECT_EQ(given.name(known, {{{"zero", "3"}}}), "dp=4,bucket_mib=5,zero=3");
  EXPECT_EQ(given.name(known, {{{"dp", "2"}, {"tp", "2"}}}), "dp=2,bucket_mib=5,tp=2");
  EXPECT_EQ(given.name(known, {{{"dp", ""}, {"tp", "4"}}}), "bucket_mib=5,tp=4");
  EXPECT_EQ(given.name(known, {{{"micro_batches", "7"}}}), "dp=4,bucket_mib=5,micro_batches=7")
      << "the rows are divided when it is compiled";
  EXPECT_EQ(given.name(known, {{{"sequence_parallel", "true"}}}), "none") << "there is no tp";
}

TEST(KeyChanges, OfSearchedPlacementsKeepThem) {
  const KeyCase given;
  PlacementSource source;
  Candidate found = source(given.request, constraints_of(4, false), {}).at(0);
  const EvaluatedCandidate known = given.evaluated(found);
  const auto changed = with_change(given.request, constraints_of(4, false), known.candidate,
                                   {{{"prefetch_mib", "128"}}});
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->name, found.name + ", prefetch_mib=128");
  EXPECT_EQ(changed->plan.shardings, known.candidate.plan.shardings);
  EXPECT_EQ(changed->plan.prefetch_window, Bytes(int64_t{128} << 20));
  EXPECT_THAT(given.values(known, "zero"), IsEmpty()) << "each variable has its placement";
}

// The stages of the marks are divided again.
TEST(KeyChanges, OfAPipelineOfTheSearchAreMadeFromItsMarks) {
  const KeyCase given;
  Preset preset = parse_preset("pp=2,dp=2,micro_batches=4");
  Plan marked = preset_plan(preset, given.graph);
  Candidate pipeline{Candidate::Source::kPipeline, "stages 2 x dp=2, micro_batches=4, 1f1b",
                     explicit_plan(given.request, marked)};
  pipeline.marked = std::make_shared<const Plan>(marked);
  pipeline.zero = 0;
  const EvaluatedCandidate known = given.evaluated(pipeline);
  EXPECT_THAT(given.values(known, "zero"), ElementsAre("1"));
  for (const auto& [change, text] :
       {std::pair(KeyChange{{{"micro_batches", "8"}}}, "pp=2,dp=2,micro_batches=8"),
        std::pair(KeyChange{{{"zero", "1"}}}, "pp=2,dp=2,micro_batches=4,zero=1"),
        std::pair(KeyChange{{{"schedule", "zb-h1"}}}, "pp=2,dp=2,micro_batches=4,schedule=zb-h1"),
        std::pair(KeyChange{{{"recompute", "full"}}},
                  "pp=2,dp=2,micro_batches=4,recompute=full")}) {
    const auto changed =
        with_change(given.request, constraints_of(4, false), known.candidate, change);
    ASSERT_TRUE(changed) << text;
    EXPECT_EQ(given.evaluated(*changed).step(), given.preset(text).step()) << text;
  }
  EXPECT_EQ(given.name(known, {{{"schedule", "zb-h1"}}}),
            "stages 2 x dp=2, micro_batches=4, schedule=zb-h1");
}

}  // namespace
}  // namespace tessera
