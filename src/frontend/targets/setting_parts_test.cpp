#include "frontend/targets/internal/setting_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>

#include "cluster/cluster/cluster_file.h"
#include "frontend/targets/internal/setting_steps.h"
#include "planner/presets/presets.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

RunConfig deep_model() {
  RunConfig config;
  config.model.kind = "llama";
  config.model.vocabulary = 4096;
  config.model.context = 512;
  config.model.width = 1024;
  config.model.heads = 8;
  config.model.layers = 24;
  config.train.precision.dtype = DType::kBF16;
  config.data.held_out = 0;
  return config;
}

/// The setting compiled and simulated as it is.
EvaluatedCandidate whole_step(RunConfig config, const Cluster& cluster,
                              const ParallelSetting& setting, const ParameterCounts& parameters) {
  config.train.batch = setting.global_batch;
  const Graph graph = training_graph(config);
  Plan plan = preset_plan(parse_preset(preset_text(setting)), graph, setting.ranks());
  plan.prefetch_window = bytes_in_flight(setting, parameters);
  const Evaluations found =
      evaluate({graph, cluster}, {{Candidate::Source::kCompared, "whole", std::move(plan)}});
  return found.evaluated.at(0);
}

ParallelSetting random_setting(std::mt19937& random) {
  const auto any = [&](std::initializer_list<int> list) {
    return std::data(list)[random() % list.size()];
  };
  ParallelSetting setting;
  setting.pipeline = any({1, 2, 4, 8});
  setting.tensor = any({1, 2});
  setting.sequence_parallel = setting.tensor > 1;
  setting.shard = 16 / setting.pipeline / setting.tensor;
  setting.zero = setting.shard > 1 ? any({1, 2, 3}) : 0;
  if (setting.zero == 0) setting.replicate = std::exchange(setting.shard, 1);
  if (setting.pipeline > 1 && 24 % (setting.pipeline * 3) == 0) setting.chunks = any({1, 3});
  setting.recomputed =
      std::array{Recomputed::kNothing, Recomputed::kSelective, Recomputed::kLayers}[random() % 3];
  setting.global_batch = setting.data() * setting.pipeline * any({3, 4});
  return setting;
}

TEST(SettingParts, WeightsAddUpToOne) {
  std::mt19937 random(3);
  const Cluster cluster = parse_cluster_line("2x8xh100");
  for (int i = 0; i < 200; ++i) {
    const ParallelSetting setting = random_setting(random);
    double step = 0, memory = 0, layers = 0;
    for (const SettingPart& part : parts_of_setting(setting, 24, cluster)) {
      step += part.weight;
      memory += part.weight_of_memory;
      layers += part.weight * static_cast<double>(part.layers) *
                static_cast<double>(part.setting.micro_batches());
      EXPECT_GE(part.setting.micro_batches(), part.setting.pipeline) << preset_text(setting);
    }
    EXPECT_NEAR(step, 1, 1e-9) << preset_text(setting);
    EXPECT_NEAR(memory, 1, 1e-9) << preset_text(setting);
    // A sum that is linear in layers and micro-batches is exact.
    if (setting.pipeline < 8) {
      EXPECT_NEAR(layers, 24.0 * static_cast<double>(setting.micro_batches()), 1e-6)
          << preset_text(setting);
    }
  }
}

TEST(SettingParts, AreTheSettingWhereItIsSmall) {
  const Cluster cluster = parse_cluster_line("4xh100");
  const ParallelSetting setting{.pipeline = 4, .global_batch = 4};
  const std::vector<SettingPart> parts = parts_of_setting(setting, 8, cluster);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].setting, setting);
  EXPECT_EQ(parts[0].layers, 8);
}

TEST(SettingParts, KeepTheRanksOfAPipelineOverUnlikeLinks) {
  const ParallelSetting setting{.pipeline = 8, .global_batch = 32};
  const auto fewest = [&](const std::string& line) {
    int ranks = setting.pipeline;
    for (const SettingPart& part : parts_of_setting(setting, 32, parse_cluster_line(line)))
      ranks = std::min(ranks, part.setting.pipeline);
    return ranks;
  };
  EXPECT_LT(fewest("8xh100"), 8) << "all in one machine";
  EXPECT_EQ(fewest("2x4xh100"), 8) << "one of the links is between machines";
}

// The reference is the same setting compiled and simulated whole.
TEST(SettingParts, GiveTheStepAndTheMemoryOfTheWhole) {
  std::mt19937 random(11);
  const RunConfig config = deep_model();
  const Cluster cluster = parse_cluster_line("2x8xh100");
  SettingSteps steps(config, cluster);
  for (int i = 0; i < 5; ++i) {
    const ParallelSetting setting = random_setting(random);
    const std::optional<EvaluatedCandidate> sum = steps.evaluate(setting);
    ASSERT_TRUE(sum) << preset_text(setting);
    const EvaluatedCandidate whole = whole_step(config, cluster, setting, steps.parameters());
    const double step = sum->step().value() / whole.step().value();
    const double memory = static_cast<double>(sum->fullest.memory.all().value()) /
                          static_cast<double>(whole.fullest.memory.all().value());
    EXPECT_NEAR(step, 1, 0.03) << preset_text(setting);
    EXPECT_NEAR(memory, 1, 0.10) << preset_text(setting);
  }
}

}  // namespace
}  // namespace tessera
