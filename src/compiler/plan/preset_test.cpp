#include "compiler/plan/preset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    parse_preset(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Preset, HasDegreesAndKeysOfPlans) {
  const Preset preset = parse_preset("pp=4, tp=2,micro_batches=8,schedule=zb-h1,bucket_mib=0");
  EXPECT_EQ(preset.stages, 4);
  EXPECT_EQ(preset.axes, (std::vector<PresetAxis>{{"tp", 2}}));
  EXPECT_FALSE(preset.chooses_micro_batches);
  EXPECT_EQ(preset.decisions.micro_batches, 8);
  EXPECT_EQ(preset.decisions.schedule, PipelineKind::kZeroBubbleH1);
  EXPECT_EQ(preset.decisions.bucket, Bytes(0));
}

TEST(Preset, WordsOfOtherSystemsAreRefusedWithTheWholePreset) {
  EXPECT_THAT(error_of("fsdp2=4,tp=2"), HasSubstr("fix: write fsdp=4,tp=2"));
  EXPECT_THAT(error_of("data_parallel_replicate_degree=2,data_parallel_shard_degree=4"),
              HasSubstr("fix: write dp=2,fsdp=4"));
  EXPECT_THAT(error_of("ddp=2,zero_stage=1"), HasSubstr("fix: write dp=2,zero=1"));
  EXPECT_THAT(error_of("tensor_model_parallel_size=2"), HasSubstr("fix: write tp=2"));
  EXPECT_THAT(error_of("dp=2,cp=2"), HasSubstr("a ring of keys and values, which does not exist"));
  EXPECT_THAT(error_of("dp=2,ep=2"), HasSubstr("there are no mixtures of experts"));
}

TEST(Preset, OfWordsWithoutEqualsSigns) {
  EXPECT_EQ(preset_of_words("dp2,tp2"), "dp=2,tp=2");
  EXPECT_EQ(preset_of_words("dp"), "dp=4");
  EXPECT_EQ(preset_of_words("fsdp"), "fsdp=4");
  EXPECT_EQ(preset_of_words("ddp8"), "dp=8");
  EXPECT_EQ(preset_of_words("zero3"), "dp=4,zero=3");
  EXPECT_EQ(preset_of_words("plan.json"), "");
  EXPECT_EQ(preset_of_words("dp2x"), "");
}

TEST(Preset, HasNumbersWithAPoint) {
  const Preset preset = parse_preset("dp=2,recompute=auto,activation_mib=3.25");
  EXPECT_EQ(preset.decisions.recompute.limit, Bytes(13 << 18));
  EXPECT_EQ(parse_preset("dp=2,recompute=auto,activation_mib=3").decisions.recompute.limit,
            Bytes(3 << 20));
}

TEST(Preset, IsATableOfTheSameKeys) {
  const Document table = parse_toml("tp = 2\ndp = \"rest\"\nmicro_batches = 2\n", "c.toml");
  ASSERT_TRUE(has_degrees(table));
  const Preset preset = parse_preset(table, "c.toml [parallel]");
  EXPECT_EQ(preset.text, "dp=rest,tp=2");
  EXPECT_EQ(preset.axes, (std::vector<PresetAxis>{{"dp", std::nullopt}, {"tp", 2}}));
  EXPECT_FALSE(has_degrees(parse_toml("mesh = {dp = 2}\n", "c.toml")));
}

TEST(Preset, HasNamesAfterWhichStagesEnd) {
  const Preset text = parse_preset("pp=3,boundaries=blocks.0 + blocks.2,micro_batches=4");
  EXPECT_EQ(text.boundaries, (std::vector<std::string>{"blocks.0", "blocks.2"}));
  EXPECT_EQ(text.decisions_text, "micro_batches=4,boundaries=blocks.0+blocks.2");
  const Document table = parse_toml("boundaries = [\"a\", \"b\"]\nstages = \"equal\"\n", "c.toml");
  ASSERT_TRUE(has_degrees(table));
  const Preset preset = parse_preset(table, "c.toml [parallel]");
  EXPECT_EQ(preset.boundaries, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(preset.decisions_text, "stages=equal,boundaries=a+b");
  EXPECT_THAT(error_of("stages=even"), HasSubstr("equal"));
}

TEST(Preset, HasTheDevicesOfStages) {
  const std::vector<StageHardware> both{{"blocks.0", "v100-16g"}, {"head", "gpu"}};
  const Preset text = parse_preset("stage_hardware=blocks.0:v100-16g + head : gpu,pp=2");
  EXPECT_EQ(text.hardware, both);
  EXPECT_EQ(text.decisions_text, "stage_hardware=blocks.0:v100-16g+head:gpu");
  const Document table =
      parse_toml("stage_hardware = [\"blocks.0:v100-16g\", \"head:gpu\"]\n", "c.toml");
  ASSERT_TRUE(has_degrees(table));
  const Preset preset = parse_preset(table, "c.toml [parallel]");
  EXPECT_EQ(preset.hardware, both);
  EXPECT_EQ(preset.decisions_text, text.decisions_text);
  for (const char* wrong : {"stage_hardware=head", "stage_hardware=head:", "stage_hardware=:gpu"})
    EXPECT_THAT(error_of(wrong), HasSubstr("stage_hardware has '")) << wrong;
}

TEST(Preset, RefusesWhatIsNoDegree) {
  for (const char* text : {"dp=0", "dp=-1", "tp=two", "pp=rest", "dp=1.5", "dp="})
    EXPECT_THAT(error_of(text), HasSubstr("is no degree")) << text;
  EXPECT_THAT(error_of("dp=2,dp=4"), HasSubstr("has 'dp' twice"));
  EXPECT_THAT(error_of("dp=rest,tp=rest"), HasSubstr("several axes of the size \"rest\""));
  EXPECT_THAT(error_of("dp=2,tp"), HasSubstr("'tp' is not key=value"));
}

TEST(Preset, SuggestsTheNearestKeyAndValue) {
  EXPECT_THAT(error_of("dpp=2"), HasSubstr("did you mean 'dp'?"));
  EXPECT_THAT(error_of("pp=2,schedul=1f1b"), HasSubstr("did you mean 'schedule'?"));
  EXPECT_THAT(error_of("pp=2,schedule=zb-h3"), HasSubstr("did you mean 'zb-h1'?"));
}

TEST(Preset, AnswersNamesOfOtherSystemsWithOurs) {
  EXPECT_THAT(error_of("pp=2,schedule=gpipe"), HasSubstr("'gpipe' is called 'f-then-b' here"));
  EXPECT_THAT(error_of("tensor_model_parallel_size=2"), HasSubstr("fix: write tp=2"));
  EXPECT_THAT(error_of("dp=2,microbatches=4"), HasSubstr("fix: write dp=2,micro_batches=4"));
}

TEST(Preset, DegreesReplaceMeshes) {
  const Document both = parse_toml("tp = 2\nmesh = {dp = 2}\n", "c.toml");
  EXPECT_THROW(parse_preset(both, "c.toml"), UserError);
}

TEST(Preset, ATextWithAnEqualsSignIsOneUnlessItIsAFile) {
  EXPECT_TRUE(is_preset("dp=2"));
  EXPECT_FALSE(is_preset("serial"));
  EXPECT_FALSE(is_preset("plans/gpt.json"));
  EXPECT_TRUE(is_preset("dp=" + std::string(5000, '2'))) << "no name of a file is so long";
}

}  // namespace
}  // namespace tessera
