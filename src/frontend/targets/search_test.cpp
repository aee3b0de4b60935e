#include "frontend/targets/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"
#include "planner/presets/presets.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

using testing::Contains;
using testing::HasSubstr;

RunConfig small_model() {
  RunConfig config;
  config.model.kind = "llama";
  config.model.vocabulary = 64;
  config.model.context = 16;
  config.model.width = 32;
  config.model.heads = 4;
  config.model.layers = 2;
  config.train.batch = 8;
  return config;
}

class TargetSearches : public testing::TestWithParam<Target> {
 protected:
  TargetResult search(const std::optional<ParallelSetting>& current = {}) {
    TargetSearch asked{.config = config,
                       .cluster = *cluster,
                       .target = GetParam(),
                       .ranks = cluster->device_count(),
                       .current = current,
                       .simulated = 6};
    return search_target(asked);
  }

  RunConfig config = small_model();
  std::shared_ptr<const Cluster> cluster =
      std::make_shared<const Cluster>(parse_cluster_line("4xa100-80g"));
  Graph graph = training_graph(config);
};

TEST_P(TargetSearches, NoSettingOfTheGridBreaksARule) {
  const TransformerSizes model = *transformer_sizes(config.model);
  const TargetMachines machines{8, 4};
  const auto settings = settings_of_target(GetParam(), model, 16, machines);
  ASSERT_FALSE(settings.empty());
  std::set<std::string> names;
  for (const ParallelSetting& setting : settings) {
    EXPECT_TRUE(broken_rules(GetParam(), setting, model, machines).empty());
    EXPECT_EQ(setting.ranks(), 8);
    EXPECT_TRUE(
        names.insert(preset_text(setting) + " micro " + std::to_string(setting.micro_batch)).second)
        << "twice: " << preset_text(setting);
  }
}

TEST_P(TargetSearches, TheBestIsNeverSlowerThanThePresentSetting) {
  ParallelSetting present{.replicate = 1, .shard = 4, .global_batch = 8};
  present.zero = GetParam() == Target::kMegatron ? 1 : 3;
  const TargetResult result = search(present);
  ASSERT_TRUE(result.best);
  ASSERT_TRUE(result.current);
  EXPECT_EQ(result.simulated[*result.current].setting, present);
  EXPECT_LE(result.simulated[*result.best].evaluated.step(),
            result.simulated[*result.current].evaluated.step());
}

TEST_P(TargetSearches, TheSameInputsGiveTheSameResult) {
  const TargetResult once = search(), again = search();
  ASSERT_EQ(once.simulated.size(), again.simulated.size());
  for (size_t i = 0; i < once.simulated.size(); ++i) {
    EXPECT_EQ(once.simulated[i].setting, again.simulated[i].setting);
    EXPECT_EQ(once.simulated[i].evaluated.step(), again.simulated[i].evaluated.step());
  }
}

TEST_P(TargetSearches, APresentSettingThatCannotRunIsRefusedWithItsRules) {
  const ParallelSetting present{.replicate = 4, .micro_batch = 3, .global_batch = 8};
  try {
    search(present);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("micro-batches divide the batch"));
  }
}

TEST_P(TargetSearches, ABatchThatNothingDividesHasNoSetting) {
  config.train.batch = 3;
  graph = training_graph(config);
  if (GetParam() == Target::kFsdp) {
    EXPECT_THROW(search(), UserError);
  } else {  // one data-parallel rank takes any batch
    EXPECT_FALSE(search().simulated.empty());
  }
}

// Casts of the last op of a layer, which the next layer alone reads, once made a cycle of stages.
TEST(WholeLayers, AreStagesInSixteenBits) {
  RunConfig config = small_model();
  config.train.precision.dtype = DType::kBF16;
  const Graph graph = training_graph(config);
  const Cluster cluster = parse_cluster_line("2xa100-80g");
  for (const char* preset :
       {"pp=2,stage_layers=equal,micro_batches=2", "pp=2,stage_layers=1+1,micro_batches=4"}) {
    Plan plan = preset_plan(parse_preset(preset), graph, 2);
    const Evaluations found =
        evaluate({graph, cluster}, {{Candidate::Source::kCompared, preset, std::move(plan)}});
    EXPECT_TRUE(found.unusable.empty()) << found.unusable.front().reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, TargetSearches,
                         testing::Values(Target::kTorchtitan, Target::kMegatron, Target::kFsdp),
                         [](const auto& tested) { return std::string(to_text(tested.param)); });

}  // namespace
}  // namespace tessera
