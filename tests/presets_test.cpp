// Presets over every configuration: they compute what the serial program computes, and send at most
// what the plans in configs/plans send, which were written by hand.
#include "planner/presets/presets.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tools/cli/print/plan/explanation.h"
#include "training/engine/engine.h"
#include "training/engine/testing/runs.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

const std::filesystem::path kPresetsConfigs = std::filesystem::path(TESSERA_SOURCE_DIR) / "configs";

RunConfig config_of(const std::string& model) {
  RunConfig config = read_config(kPresetsConfigs / (model + ".toml"));
  set_sizes(config.model, config.data);
  return config;
}

/// The bytes that a rank receives in a step.
int64_t bytes_of(const Graph& graph, const Plan& plan) {
  int64_t bytes = 0;
  for (const CommunicationFacts& facts : communications_of(compile(graph, plan).tasks))
    bytes += facts.bytes.value();
  return bytes;
}

/// A preset and the plan of the same degrees in configs/plans.
struct Pair {
  std::string model, preset, plan;
};
std::ostream& operator<<(std::ostream& out, const Pair& pair) {
  return out << pair.model << " " << pair.preset;
}

class EveryConfigurationByHand : public testing::TestWithParam<Pair> {};

TEST_P(EveryConfigurationByHand, SendsNoMoreThanThePlanOfTheSameDegrees) {
  const Graph graph = training_graph(config_of(GetParam().model));
  const Plan by_hand =
      read_plan(kPresetsConfigs / "plans" / (GetParam().model + "." + GetParam().plan + ".json"));
  EXPECT_LE(bytes_of(graph, preset_plan(parse_preset(GetParam().preset), graph)),
            bytes_of(graph, by_hand));
}

INSTANTIATE_TEST_SUITE_P(
    Presets, EveryConfigurationByHand,
    testing::Values(
        Pair{"gpt", "dp=4", "dp4"}, Pair{"gpt", "tp=4", "tp4"}, Pair{"gpt", "dp=2,tp=2", "dp2-tp2"},
        Pair{"gpt", "pp=2,micro_batches=4", "pp2"}, Pair{"gpt", "pp=4,micro_batches=4", "pp4"},
        Pair{"gpt", "pp=4,micro_batches=8,schedule=zb-h1", "pp4-zb-h1"},
        Pair{"gpt", "pp=2,dp=2,micro_batches=4", "pp2-dp2"},
        Pair{"gpt", "pp=2,dp=2,tp=2,micro_batches=4", "pp2-dp2-tp2"}, Pair{"llama", "dp=4", "dp4"},
        Pair{"llama", "tp=4", "tp4"}, Pair{"llama", "dp=2,tp=2", "dp2-tp2"},
        Pair{"llama", "pp=4,micro_batches=4", "pp4"},
        Pair{"llama", "pp=2,dp=2,tp=2,micro_batches=4", "pp2-dp2-tp2"}, Pair{"bert", "dp=4", "dp4"},
        Pair{"bert", "tp=4", "tp4"}, Pair{"bert", "dp=2,tp=2", "dp2-tp2"},
        Pair{"bert", "pp=2,micro_batches=4", "pp2"},
        Pair{"bert", "pp=2,dp=2,tp=2,micro_batches=4", "pp2-dp2-tp2"}, Pair{"mlp", "tp=4", "tp4"},
        Pair{"mlp", "dp=2,tp=2", "dp2-tp2"}, Pair{"mlp", "pp=2,micro_batches=4", "pp2"},
        Pair{"mlp", "pp=2,dp=2,tp=2,micro_batches=4", "pp2-dp2-tp2"},
        Pair{"resnet20", "dp=2", "dp2"}, Pair{"resnet20", "tp=2", "tp2"},
        Pair{"resnet20", "sp=2", "sp2"}, Pair{"resnet20", "pp=2,micro_batches=1", "pp2"}));

// ---- what published runs use, on eight ranks ----

// Marks of positions at the end of a stage follow the micro-batches on both stages.
TEST(Presets, MarksOfASequenceAtTheEndOfAStageRunInMicroBatches) {
  const RunConfig config = tiny_gpt();
  Plan plan = preset_plan(parse_preset("dp=2,tp=2,pp=2,micro_batches=2"), training_graph(config));
  plan.marks.push_back(shard_tensor("blocks.*.residual{1,2}", "P(\"dp\", \"tp\")"));
  const VerifyReport report = verify_plan(config, plan, small_text(), {.steps = 1});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "");
}

class OnEightRanks : public testing::TestWithParam<std::string> {};

TEST_P(OnEightRanks, ComputesWhatTheSerialProgramComputes) {
  RunConfig config = tiny_gpt();
  config.model.layers = 4;
  config.train.precision.dtype = DType::kBF16;
  const Plan plan = preset_plan(parse_preset(GetParam()), training_graph(config));
  EXPECT_EQ(plan.rank_count(), 8);
  const VerifyReport report = verify_plan(config, plan, small_text(), {.steps = 2});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "");
}

INSTANTIATE_TEST_SUITE_P(
    Presets, OnEightRanks,
    testing::Values(
        "dp=4,tp=2,sequence_parallel=true", "dp=2,fsdp=4",
        "dp=2,fsdp=2,tp=2,zero=2,micro_batches=2,sequence_parallel=true", "fsdp=8,micro_batches=1",
        "dp=8,zero=1", "dp=8,zero=1,master_weights=whole",
        "pp=2,tp=4,micro_batches=4,sequence_parallel=true",
        "pp=4,dp=2,micro_batches=4,stage_layers=1+1+2+0",
        "pp=2,dp=2,tp=2,zero=1,micro_batches=4,schedule=interleaved,chunks=2,"
        "sequence_parallel=true,stage_layers=equal",
        "pp=2,dp=4,micro_batches=2,schedule=interleaved,chunks=2,stage_layers=0+2+1+1"));

}  // namespace
}  // namespace tessera
