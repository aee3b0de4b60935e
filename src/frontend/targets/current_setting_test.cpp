#include "frontend/targets/current_setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TransformerSizes model_of(int64_t layers) {
  return {.layers = layers,
          .width = 8192,
          .heads = 64,
          .kv_heads = 8,
          .head = 128,
          .ffn = 28672,
          .vocabulary = 128256,
          .context = 8192};
}

ParallelSetting read(Target target, const std::string& text, int64_t layers, int ranks,
                     const std::string& file = "") {
  return read_current(target, {text, file}, model_of(layers), ranks).setting;
}

std::string refusal(Target target, const std::string& text, int ranks = 64,
                    const std::string& file = "") {
  try {
    read(target, text, 80, ranks, file);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(CurrentSetting, OfMegatronIsItsCommandLine) {
  const ParallelSetting setting = read(Target::kMegatron,
                                       "torchrun --nproc-per-node 8 pretrain_gpt.py \\\n"
                                       "  --tensor-model-parallel-size=8 --sequence-parallel \\\n"
                                       "  --pipeline-model-parallel-size 4 "
                                       "--num-layers-per-virtual-pipeline-stage 5 "
                                       "--micro-batch-size 1 --global-batch-size '1024' "
                                       "--use-distributed-optimizer --recompute-activations",
                                       80, 512);
  EXPECT_EQ(setting.tensor, 8);
  EXPECT_TRUE(setting.sequence_parallel);
  EXPECT_EQ(setting.pipeline, 4);
  EXPECT_EQ(setting.chunks, 4);
  EXPECT_EQ(setting.shard, 16);
  EXPECT_EQ(setting.zero, 1);
  EXPECT_EQ(setting.micro_batches(), 64);
  EXPECT_EQ(setting.recomputed, Recomputed::kSelective);
}

TEST(CurrentSetting, ALayoutGivesTheLayersOfStages) {
  const auto layers = [&](const std::string& layout, int64_t count) {
    return read(
               Target::kMegatron,
               "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout '" + layout + "'",
               count, 2)
        .stage_layers;
  };
  EXPECT_THAT(layers("Ettt|ttL", 5), ElementsAre(3, 2));
  EXPECT_THAT(layers("Et*3|(tt|)*2t,L", 8), ElementsAre(3, 2, 2, 1));
  EXPECT_THAT(layers("E|t*4", 4), ElementsAre(0, 4));
}

TEST(CurrentSetting, MalformedLayoutsAreRefused) {
  for (const char* layout : {"E(tt|", "Et*|tL", "Ex|tL", "E(t|)*99999999|L", "Et*99999999|L"})
    EXPECT_THAT(refusal(Target::kMegatron, std::string("--pipeline-model-parallel-size 2 "
                                                       "--pipeline-model-parallel-layout '") +
                                               layout + "'"),
                HasSubstr("layout"))
        << layout;
}

TEST(CurrentSetting, TorchtitanDividesLayersByItself) {
  // torchtitan 0.3.0, pipeline_parallel.py: the embedding and the logits count as a layer each.
  const ParallelSetting setting = read(Target::kTorchtitan,
                                       "--module llama3 --config llama3_70b "
                                       "--parallelism.pipeline_parallel_degree 4 "
                                       "--training.local_batch_size 8 "
                                       "activation-checkpoint:full",
                                       32, 16);
  EXPECT_THAT(setting.stage_layers, ElementsAre(8, 9, 8, 7));
  EXPECT_EQ(setting.chunks, 1);
  EXPECT_EQ(setting.shard, 4);
  EXPECT_EQ(setting.zero, 2);  // parameters stay gathered with a pipeline
  EXPECT_EQ(setting.global_batch, 32);
  EXPECT_EQ(setting.recomputed, Recomputed::kLayers);
}

TEST(CurrentSetting, OfTorchtitanMayBeTheFileOfAFormerVersion) {
  const char* toml =
      "[model]\nname = \"llama3\"\nflavor = \"70B\"\n"
      "[training]\nlocal_batch_size = 4\nseq_len = 8192\n"
      "[parallelism]\ntensor_parallel_degree = 8\ndata_parallel_shard_degree = -1\n"
      "[activation_checkpoint]\nmode = \"none\"\n";
  const ParallelSetting setting = read(Target::kTorchtitan, toml, 80, 64, "train.toml");
  EXPECT_EQ(setting.tensor, 8);
  EXPECT_EQ(setting.shard, 8);
  EXPECT_EQ(setting.zero, 3);
  EXPECT_EQ(setting.micro_batch, 4);
  EXPECT_EQ(setting.recomputed, Recomputed::kNothing);
}

TEST(CurrentSetting, OfTorchtitanMayBeItsSavedConfiguration) {
  const char* json =
      R"({"parallelism": {"tensor_parallel_degree": 2, "data_parallel_shard_degree": 4,
          "enable_sequence_parallel": false},
          "training": {"local_batch_size": 2, "global_batch_size": 64},
          "activation_checkpoint": {"determinism_check": "default",
                                    "force_recompute_mm_shapes_by_fqns": ["moe.router.gate"]}})";
  const ParallelSetting setting = read(Target::kTorchtitan, json, 80, 8, "config.json");
  EXPECT_EQ(setting.tensor, 2);
  EXPECT_FALSE(setting.sequence_parallel);
  EXPECT_EQ(setting.micro_batches(), 8);
  EXPECT_EQ(setting.recomputed, Recomputed::kSelective);
}

TEST(CurrentSetting, OfTorchtitanMayBeAFunctionOfAConfiguration) {
  const char* python =
      "def planned():\n"
      "    config = llama3_70b()  # tensor_parallel_degree = 99\n"
      "    config.parallelism = ParallelismConfig(tensor_parallel_degree=4,\n"
      "        data_parallel_shard_degree=-1, fsdp_reshard_after_forward=\"never\")\n"
      "    config.training.local_batch_size = 2\n"
      "    config.activation_checkpoint = None\n"
      "    return config\n";
  const ParallelSetting setting = read(Target::kTorchtitan, python, 80, 32, "plan.py");
  EXPECT_EQ(setting.tensor, 4);
  EXPECT_EQ(setting.shard, 8);
  EXPECT_EQ(setting.zero, 2);
  EXPECT_EQ(setting.micro_batch, 2);
  EXPECT_EQ(setting.recomputed, Recomputed::kNothing);
}

TEST(CurrentSetting, WhatItDoesNotDescribeIsTold) {
  const auto current =
      read_current(Target::kMegatron,
                   {"--num-experts 8 --recompute-granularity full --recompute-method block", ""},
                   model_of(80), 1);
  EXPECT_THAT(current.notes, ElementsAre(HasSubstr("every layer"), HasSubstr("--num-experts")));
}

TEST(CurrentSetting, FlagsThatContradictTheModelOrTheDevicesAreRefused) {
  EXPECT_THAT(refusal(Target::kMegatron, "--num-layers 32"), HasSubstr("the model has 80 layers"));
  EXPECT_THAT(refusal(Target::kMegatron, "--tensor-model-parallel-size 8", 12),
              HasSubstr("multiple of 8 devices"));
  EXPECT_THAT(refusal(Target::kTorchtitan, "--parallelism.data_parallel_shard_degree 3"),
              HasSubstr("it is 64"));
  EXPECT_THAT(refusal(Target::kTorchtitan,
                      "--parallelism.pipeline_parallel_degree 64 "
                      "--parallelism.pipeline_parallel_layers_per_stage 50"),
              HasSubstr("no multiple of 64"));
}

TEST(CurrentSetting, MalformedValuesAreRefusedWithTheirFlag) {
  for (const char* value : {"${TP}", "eight", "0", "-3", "99999999999999999999", "8.5", "''"})
    EXPECT_THAT(refusal(Target::kMegatron, std::string("--tensor-model-parallel-size ") + value),
                HasSubstr("--tensor-model-parallel-size of --current"))
        << value;
  EXPECT_THAT(refusal(Target::kMegatron, "--micro-batch-size '1"), HasSubstr("quote"));
  EXPECT_THAT(refusal(Target::kTorchtitan, "[parallelism", 64, "train.toml"),
              HasSubstr("train.toml"));
}

TEST(CurrentSetting, TheBatchIsKnownBeforeTheModel) {
  const CurrentRun run =
      current_run(Target::kMegatron, {"--global-batch-size 512 --seq-length 4096", ""});
  EXPECT_EQ(run.rows, 512);
  EXPECT_EQ(run.context, 4096);
  EXPECT_FALSE(current_run(Target::kFsdp, {"--shard 8", ""}).rows);
}

TEST(CurrentSetting, IsTextOrAFile) {
  EXPECT_THAT(current_text("--micro-batch-size 1").file, IsEmpty());
  EXPECT_THROW(current_text("no_such_file.toml"), UserError);
}

}  // namespace
}  // namespace tessera
