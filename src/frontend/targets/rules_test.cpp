#include "frontend/targets/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

TransformerSizes llama() {
  return {.layers = 32,
          .width = 4096,
          .heads = 32,
          .kv_heads = 8,
          .head = 128,
          .ffn = 14336,
          .vocabulary = 128256,
          .context = 8192};
}

/// The names of the rules that the setting breaks on as many devices as it has ranks, eight a
/// machine.
std::vector<std::string> broken(Target target, const ParallelSetting& setting,
                                const TransformerSizes& model = llama()) {
  std::vector<std::string> names;
  for (const BrokenRule& rule : broken_rules(target, setting, model, {setting.ranks(), 8}))
    names.emplace_back(rule.rule);
  return names;
}

TEST(TargetRules, ASettingThatAllRun) {
  const ParallelSetting plain{.shard = 8, .zero = 3, .global_batch = 64};
  EXPECT_THAT(broken(Target::kTorchtitan, plain), IsEmpty());
  EXPECT_THAT(broken(Target::kFsdp, plain), IsEmpty());
  const ParallelSetting zero1{
      .shard = 2, .tensor = 4, .sequence_parallel = true, .zero = 1, .global_batch = 64};
  EXPECT_THAT(broken(Target::kMegatron, zero1), IsEmpty());
}

TEST(TargetRules, EveryRuleHasASource) {
  for (const Target target : {Target::kTorchtitan, Target::kMegatron, Target::kFsdp})
    for (const auto& [name, source] : rules_of(target)) {
      EXPECT_FALSE(name.empty());
      EXPECT_FALSE(source.empty()) << name;
    }
}

TEST(TargetRules, KeysAndValuesAreReplicatedByMegatronAlone) {
  const ParallelSetting setting{
      .tensor = 16, .sequence_parallel = true, .global_batch = 8};  // 8 heads of keys and values
  EXPECT_THAT(broken(Target::kTorchtitan, setting),
              Contains("tp divides the heads of keys and values"));
  EXPECT_THAT(broken(Target::kMegatron, setting), ElementsAre("tp stays inside a machine"));
}

TEST(TargetRules, ATiedEmbeddingHasNoPipelineInTorchtitan) {
  TransformerSizes tied = llama();
  tied.tied = true;
  const ParallelSetting setting{.pipeline = 2, .global_batch = 8};
  EXPECT_THAT(broken(Target::kTorchtitan, setting, tied),
              ElementsAre("a tied embedding has no pipeline"));
  EXPECT_THAT(broken(Target::kMegatron, setting, tied), IsEmpty());
}

TEST(TargetRules, InterleavedSchedulesHaveRoundsOfMicroBatches) {
  // PyTorch: with pp = 2, three micro-batches run and five do not. Megatron-LM: what remains of
  // rounds of pp is none, or a round.
  ParallelSetting setting{.pipeline = 2, .chunks = 2, .global_batch = 3};
  EXPECT_THAT(broken(Target::kTorchtitan, setting), IsEmpty());
  EXPECT_THAT(broken(Target::kMegatron, setting),
              ElementsAre("virtual stages have rounds of micro-batches"));
  setting.global_batch = 5;
  EXPECT_THAT(broken(Target::kTorchtitan, setting),
              ElementsAre("a pipeline has micro-batches enough"));
  setting.global_batch = 4;
  EXPECT_THAT(broken(Target::kMegatron, setting), IsEmpty());
}

TEST(TargetRules, OneForwardOneBackwardFillsTheStagesInPyTorchAlone) {
  const ParallelSetting setting{.pipeline = 4, .global_batch = 2};
  EXPECT_THAT(broken(Target::kTorchtitan, setting),
              ElementsAre("a pipeline has micro-batches enough"));
  EXPECT_THAT(broken(Target::kMegatron, setting), IsEmpty());
}

TEST(TargetRules, StateIsDividedAsEachTargetCan) {
  const auto of = [](int zero) {
    return ParallelSetting{.shard = 8, .zero = zero, .global_batch = 64};
  };
  EXPECT_THAT(broken(Target::kTorchtitan, of(1)), ElementsAre("no ZeRO-1"));
  EXPECT_THAT(broken(Target::kFsdp, of(1)), ElementsAre("ZeRO-2 or ZeRO-3"));
  EXPECT_THAT(broken(Target::kMegatron, of(2)), ElementsAre("ZeRO-1 at most"));
}

TEST(TargetRules, FsdpHasNoOtherDegrees) {
  const ParallelSetting setting{.tensor = 2, .global_batch = 8};
  EXPECT_THAT(broken(Target::kFsdp, setting), ElementsAre("data parallelism alone"));
}

TEST(TargetRules, LayersAndRows) {
  ParallelSetting setting{.pipeline = 2, .stage_layers = {16, 15}, .global_batch = 8};
  EXPECT_THAT(broken(Target::kMegatron, setting),
              ElementsAre("every stage has layers, and every layer a stage"));
  setting.stage_layers = {17, 15};
  EXPECT_THAT(broken(Target::kMegatron, setting), IsEmpty());
  setting.micro_batch = 3;
  EXPECT_THAT(broken(Target::kMegatron, setting), ElementsAre("micro-batches divide the batch"));
}

TEST(TargetRules, TokensOfARow) {
  TransformerSizes odd = llama();
  odd.context = 4100;  // 4 times 1025
  const ParallelSetting with_tensor{.tensor = 8, .sequence_parallel = true, .global_batch = 8};
  for (const Target target : {Target::kTorchtitan, Target::kMegatron})
    EXPECT_THAT(broken(target, with_tensor, odd),
                ElementsAre("tp and 2 cp divide the tokens of a row"));
  const ParallelSetting with_context{.context = 4, .global_batch = 8};
  EXPECT_THAT(broken(Target::kMegatron, with_context, odd),
              ElementsAre("tp and 2 cp divide the tokens of a row"));
}

}  // namespace
}  // namespace tessera
