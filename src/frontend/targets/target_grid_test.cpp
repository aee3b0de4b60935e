// Eight models on five clusters, from one device to 512 and with unlike machines: what each target
// can run is written and read back, and what it cannot is refused with the rule.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cluster/cluster/cluster_file.h"
#include "frontend/models/model_file.h"
#include "frontend/targets/current_setting.h"
#include "frontend/targets/rules.h"
#include "frontend/targets/search.h"
#include "frontend/targets/writers.h"

namespace tessera {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr int64_t kRows = 512;
constexpr size_t kTried = 48;  // settings of each model on each cluster
const std::vector<std::string> kModels = {"gpt2",         "llama3.2-1b", "llama3-8b",
                                          "mistral-7b",   "qwen2.5-7b",  "qwen3-32b",
                                          "deepseek-67b", "llama3-70b"};
const std::vector<std::string> kClusters = {"1xh100", "8xh100", "8x8xa100-80g", "64x8xh100",
                                            "2x8xh100+4x4xa100-80g"};

TransformerSizes sizes_of(const std::string& model) {
  const ModelFileOptions options{
      .sets = {"data.held_out=0.0"},
      .known = std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" / "models"};
  return transformer_sizes(read_model_file(model, options).config.run.model).value();
}

TargetMachines machines_of_line(const std::string& line) {
  const Cluster cluster = parse_cluster_line(line);
  TargetMachines machines{cluster.device_count(), cluster.device_count()};
  for (int machine = 0; machine < cluster.machine_count(); ++machine)
    machines.ranks_of_machine =
        std::min(machines.ranks_of_machine, static_cast<int>(cluster.devices_of(machine).size()));
  return machines;
}

/// Spread over the whole grid.
std::vector<ParallelSetting> some_of(const std::vector<ParallelSetting>& settings) {
  std::vector<ParallelSetting> list;
  const size_t count = std::min(kTried, settings.size());
  for (size_t i = 0; i < count; ++i) list.push_back(settings[i * settings.size() / count]);
  return list;
}

class TargetGrid : public testing::TestWithParam<std::tuple<Target, std::string>> {};

TEST_P(TargetGrid, WhatIsWrittenIsReadBackAndHoldsEveryLayerAndRankOnce) {
  const auto& [target, name] = GetParam();
  const TransformerSizes model = sizes_of(name);
  for (const std::string& line : kClusters) {
    const TargetMachines machines = machines_of_line(line);
    const auto settings = settings_of_target(target, model, kRows, machines);
    ASSERT_FALSE(settings.empty()) << line;
    for (const ParallelSetting& setting : some_of(settings)) {
      const TargetPlan plan{.target = target,
                            .setting = setting,
                            .model = model,
                            .model_name = name,
                            .ranks_of_machine = machines.ranks_of_machine,
                            .verdict = "The verdict."};
      const std::string which = line + " " + preset_text(setting);
      const std::vector<TargetFile> files = target_files(plan);
      const char* plan_file = target == Target::kTorchtitan ? "tessera_plan.py"
                              : target == Target::kMegatron ? "flags.txt"
                                                            : "tessera_fsdp.py";
      for (const char* file : {plan_file, "launch.sh", "ranks.json", "README.md"})
        EXPECT_EQ(std::ranges::count(files, file, &TargetFile::name), 1) << file << " " << which;
      const CurrentText flags{flags_text(flags_of(plan)), ""};
      ParallelSetting read = read_current(target, flags, model, setting.ranks()).setting;
      if (target == Target::kTorchtitan && setting.pipeline > 1) {
        // Its flags cannot say stages of unequal size; its module can.
        if (model.layers % setting.stages() != 0) read.stage_layers = setting.stage_layers;
        const auto module = std::ranges::find(files, "tessera_plan.py", &TargetFile::name);
        ASSERT_NE(module, files.end());
        const CurrentText text{module->text, module->name};
        EXPECT_EQ(layers_of_stages(read_current(target, text, model, setting.ranks()).setting,
                                   model.layers),
                  layers_of_stages(setting, model.layers))
            << which;
        std::multiset<std::string> modules;
        for (const auto& part : torchtitan_parts(layers_of_stages(setting, model.layers)))
          modules.insert(part.begin(), part.end());
        EXPECT_EQ(std::ssize(modules), model.layers + 3) << which;
        EXPECT_EQ(std::set(modules.begin(), modules.end()).size(), modules.size()) << which;
      }
      EXPECT_EQ(layers_of_stages(read, model.layers), layers_of_stages(setting, model.layers))
          << which;
      read.stage_layers = setting.stage_layers;
      EXPECT_EQ(preset_text(read), preset_text(setting)) << line << " " << flags.text;
      std::set<int> ranks;
      for (const RankPlace& place : rank_places(setting)) ranks.insert(place.rank);
      EXPECT_EQ(std::ssize(ranks), machines.ranks) << which;
    }
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<Target, std::string>>& tested) {
  std::string name = std::string(to_text(std::get<0>(tested.param))) + std::get<1>(tested.param);
  std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Targets, TargetGrid,
                         testing::Combine(testing::Values(Target::kTorchtitan, Target::kMegatron,
                                                          Target::kFsdp),
                                          testing::ValuesIn(kModels)),
                         name_of);

/// A setting that a target does not run.
struct Infeasible {
  Target target;
  const char* model;
  ParallelSetting setting;
  const char* rule;
};

TEST(TargetGridRules, RefuseWhatATargetDoesNotRun) {
  using enum Target;
  const std::vector<Infeasible> list = {
      {kTorchtitan, "gpt2", {.tensor = 8, .global_batch = 8}, "tp divides the heads"},
      {kMegatron, "gpt2", {.tensor = 8, .global_batch = 8}, "tp divides the heads"},
      {kTorchtitan,
       "qwen2.5-7b",
       {.tensor = 7, .global_batch = 8},
       "tp divides the heads of keys and values"},
      {kMegatron, "llama3-70b", {.tensor = 16, .global_batch = 8}, "tp stays inside a machine"},
      {kTorchtitan,
       "llama3.2-1b",
       {.pipeline = 4, .global_batch = 8},
       "a tied embedding has no pipeline"},
      {kTorchtitan, "llama3-8b", {.shard = 8, .zero = 1, .global_batch = 8}, "no ZeRO-1"},
      {kMegatron, "llama3-8b", {.shard = 8, .zero = 3, .global_batch = 8}, "ZeRO-1 at most"},
      {kMegatron, "llama3-8b", {.shard = 8, .zero = 2, .global_batch = 8}, "ZeRO-1 at most"},
      {kFsdp,
       "llama3-8b",
       {.shard = 4, .tensor = 2, .zero = 3, .global_batch = 8},
       "data parallelism alone"},
      {kFsdp,
       "llama3-8b",
       {.shard = 4, .pipeline = 2, .zero = 3, .global_batch = 8},
       "data parallelism alone"},
      {kFsdp, "llama3-8b", {.shard = 8, .zero = 1, .global_batch = 8}, "ZeRO-2 or ZeRO-3"},
      {kMegatron,
       "llama3-8b",
       {.replicate = 8, .global_batch = 12},
       "micro-batches divide the batch"},
      {kMegatron,
       "gpt2",
       {.pipeline = 8, .chunks = 2, .global_batch = 16},
       "every stage has layers, and every layer a stage"},
      {kMegatron,
       "llama3-8b",
       {.pipeline = 8, .chunks = 2, .global_batch = 12},
       "virtual stages have rounds of micro-batches"},
      {kMegatron,
       "llama3-8b",
       {.pipeline = 8, .is_gpipe = true, .global_batch = 16},
       "pipelines are 1F1B"},
      {kMegatron,
       "llama3-8b",
       {.sequence_parallel = true, .global_batch = 8},
       "sequence parallelism has tp"},
  };
  for (const Infeasible& each : list) {
    const TransformerSizes model = sizes_of(each.model);
    std::vector<std::string> broken;
    for (const BrokenRule& rule :
         broken_rules(each.target, each.setting, model, {each.setting.ranks(), 8}))
      broken.emplace_back(rule.rule);
    EXPECT_THAT(broken, Contains(each.rule)) << each.model << " " << preset_text(each.setting);
    // The grid has none of them.
    for (const ParallelSetting& setting : settings_of_target(
             each.target, model, each.setting.global_batch, {each.setting.ranks(), 8}))
      EXPECT_FALSE(setting == each.setting) << each.rule;
  }
}

}  // namespace
}  // namespace tessera
