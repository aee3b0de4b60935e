#include "frontend/targets/writers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "frontend/targets/current_setting.h"

namespace tessera {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TransformerSizes llama_8b() {
  return {.layers = 32,
          .width = 4096,
          .heads = 32,
          .kv_heads = 8,
          .head = 128,
          .ffn = 14336,
          .vocabulary = 128256,
          .context = 8192};
}

TargetPlan plan_of(Target target, const ParallelSetting& setting) {
  return {.target = target,
          .setting = setting,
          .model = llama_8b(),
          .model_name = "llama3-8b",
          .ranks_of_machine = 8,
          .verdict = "The verdict."};
}

/// The text of a file; "" where there is none.
std::string text_of(const std::vector<TargetFile>& files, const std::string& name) {
  const auto found = std::ranges::find(files, name, &TargetFile::name);
  return found == files.end() ? "" : found->text;
}

const ParallelSetting kInterleaved{.shard = 4,
                                   .tensor = 2,
                                   .pipeline = 4,
                                   .sequence_parallel = true,
                                   .zero = 1,
                                   .chunks = 2,
                                   .recomputed = Recomputed::kLayers,
                                   .micro_batch = 2,
                                   .global_batch = 128};

TEST(TargetWriters, ArgumentsOfMegatron) {
  const std::vector<Flag> flags = flags_of(plan_of(Target::kMegatron, kInterleaved));
  for (const Flag& flag : std::vector<Flag>{{"--tensor-model-parallel-size", "2"},
                                            {"--pipeline-model-parallel-size", "4"},
                                            {"--num-virtual-stages-per-pipeline-rank", "2"},
                                            {"--sequence-parallel"},
                                            {"--use-distributed-optimizer"},
                                            {"--micro-batch-size", "2"},
                                            {"--global-batch-size", "128"},
                                            {"--recompute-granularity", "full"},
                                            {"--recompute-method", "uniform"},
                                            {"--num-query-groups", "8"}})
    EXPECT_THAT(flags, Contains(flag));
}

TEST(TargetWriters, LayoutsOfMegatron) {
  EXPECT_EQ(megatron_layout({3, 4, 1}), "Et*3|t*4|t,L");
  EXPECT_EQ(megatron_layout({0, 4, 0}), "E|t*4|L");
}

TEST(TargetWriters, PartsOfTorchtitanHoldEveryModuleOnce) {
  const auto parts = torchtitan_parts({1, 2, 0});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_THAT(parts[0], ElementsAre("tok_embeddings", "layers.0"));
  EXPECT_THAT(parts[1], ElementsAre("layers.1", "layers.2"));
  EXPECT_THAT(parts[2], ElementsAre("norm", "lm_head"));
}

TEST(TargetWriters, AConfigurationOfTorchtitan) {
  ParallelSetting setting = kInterleaved;
  setting.zero = 3;
  const std::string text =
      text_of(target_files(plan_of(Target::kTorchtitan, setting)), "tessera_plan.py");
  for (const char* line : {
           "from torchtitan.models.llama3.config_registry import llama3_8b as base",
           "parallelism.data_parallel_shard_degree = 4",
           "parallelism.pipeline_parallel_schedule = \"Interleaved1F1B\"",
           "parallelism.fsdp_reshard_after_forward = \"always\"",
           "training.local_batch_size = 32",
           "training.disable_cuda_graphs = True",
           "config.activation_checkpoint = FullAC.Config()",
       })
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(TargetWriters, ALaunchLineStartsEveryDeviceOnce) {
  const std::string text =
      text_of(target_files(plan_of(Target::kMegatron, kInterleaved)), "launch.sh");
  EXPECT_THAT(text, HasSubstr("torchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py"));
  EXPECT_THAT(text, HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=1"));
}

TEST(TargetWriters, RanksAreInTheOrderOfBothPrograms) {
  // Megatron-LM with tp = cp = dp = pp = 2: tp [0,1], cp [0,2], dp [0,4], pp [0,8].
  const auto places =
      rank_places({.shard = 2, .context = 2, .tensor = 2, .pipeline = 2, .zero = 1});
  ASSERT_EQ(places.size(), 16u);
  EXPECT_EQ(places[1].tensor, 1);
  EXPECT_EQ(places[2].context, 1);
  EXPECT_EQ(places[4].shard, 1);
  EXPECT_EQ(places[8].pipeline, 1);
}

TEST(TargetWriters, FsdpInAFewLines) {
  const std::string hybrid =
      text_of(target_files(plan_of(Target::kFsdp,
                                   {.replicate = 2, .shard = 8, .zero = 3, .global_batch = 16})),
              "tessera_fsdp.py");
  EXPECT_THAT(hybrid, HasSubstr("(2, 8), mesh_dim_names=(\"replicate\", \"shard\")"));
  EXPECT_THAT(hybrid, HasSubstr("reshard_after_forward=True"));
  EXPECT_THAT(hybrid, Not(HasSubstr("checkpoint_wrapper(blocks")));
}

TEST(TargetWriters, NamesWithNewlinesAreRefused) {
  TargetPlan plan = plan_of(Target::kMegatron, kInterleaved);
  plan.model_name = "model\nrm -r /";
  EXPECT_THROW(target_files(plan), UserError);
  plan.model_name = std::string("model\0", 6);
  EXPECT_THROW(target_files(plan), UserError);
}

/// What is written is read as the same setting.
class WrittenFlags : public testing::TestWithParam<Target> {};

TEST_P(WrittenFlags, AreReadBack) {
  std::vector<ParallelSetting> settings;
  for (const int zero : {0, 1, 2, 3})
    for (const int pipeline : {1, 4})
      for (const Recomputed recomputed :
           {Recomputed::kNothing, Recomputed::kSelective, Recomputed::kLayers}) {
        const bool is_fsdp = GetParam() == Target::kFsdp;
        const bool is_possible = is_fsdp                           ? zero >= 2 && pipeline == 1
                                 : GetParam() == Target::kMegatron ? zero <= 1
                                                                   : zero != 1;
        if (!is_possible) continue;
        settings.push_back({.replicate = zero == 0 ? 8 : 2,
                            .shard = zero == 0 ? 1 : 4,
                            .tensor = is_fsdp ? 1 : 2,
                            .pipeline = pipeline,
                            .sequence_parallel = !is_fsdp,
                            .zero = zero,
                            .chunks = pipeline > 1 ? 2 : 1,
                            .recomputed = recomputed,
                            .micro_batch = 2,
                            .global_batch = 128});
      }
  ASSERT_FALSE(settings.empty());
  for (const ParallelSetting& setting : settings) {
    const TargetPlan plan = plan_of(GetParam(), setting);
    const CurrentText text{flags_text(flags_of(plan)), ""};
    ParallelSetting read = read_current(GetParam(), text, llama_8b(), setting.ranks()).setting;
    if (setting.pipeline > 1 && GetParam() == Target::kTorchtitan) {
      // Its flags leave the division of layers to torchtitan; the written module has them.
      EXPECT_EQ(read.chunks, setting.chunks);
      read.stage_layers.clear();
    }
    EXPECT_EQ(preset_text(read), preset_text(setting)) << text.text;
    EXPECT_EQ(read, setting) << text.text;
  }
}

TEST(TargetWriters, AModuleOfTorchtitanIsReadBack) {
  const ParallelSetting setting{.shard = 4,
                                .pipeline = 4,
                                .zero = 2,
                                .stage_layers = {7, 9, 9, 7},
                                .recomputed = Recomputed::kLayers,
                                .micro_batch = 1,
                                .global_batch = 64};
  const std::string text =
      text_of(target_files(plan_of(Target::kTorchtitan, setting)), "tessera_plan.py");
  EXPECT_EQ(read_current(Target::kTorchtitan, {text, "tessera_plan.py"}, llama_8b(), 16).setting,
            setting);
}

INSTANTIATE_TEST_SUITE_P(Targets, WrittenFlags,
                         testing::Values(Target::kTorchtitan, Target::kMegatron, Target::kFsdp),
                         [](const auto& tested) { return std::string(to_text(tested.param)); });

}  // namespace
}  // namespace tessera
