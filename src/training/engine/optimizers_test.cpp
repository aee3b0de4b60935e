// LAMB, Muon, frozen parameters and low-rank adapters in whole runs. The conformance program shows
// that every plan computes what the serial program computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "planner/presets/presets.h"
#include "training/checkpoint/testing/simulated_disk.h"
#include "training/engine/checkpointing.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

RunConfig optimizers_run_of(const std::string& model, const std::string& variant) {
  RunConfig config = tiny_run(model);
  if (variant == "lamb") config.optimizer.kind = OptimizerKind::kLamb;
  if (variant == "muon") config.optimizer.kind = OptimizerKind::kMuon;
  if (variant == "frozen") config.optimizer.frozen = {"tokens.*", "blocks.0.*"};
  if (variant == "lora") config.model.lora = {.rank = 4, .targets = {"*.attn.*.weight"}};
  return config;
}

Plan preset(const RunConfig& config, const std::string& text) {
  return text == "serial" ? serial_plan() : preset_plan(parse_preset(text), training_graph(config));
}

TEST(Variants, OfStepsInPartsAreThoseOfAStep) {
  for (const char* variant : {"lamb", "muon", "frozen", "lora"}) {
    SCOPED_TRACE(variant);
    RunConfig config = optimizers_run_of("gpt", variant);
    config.model.dropout = 0;
    Engine whole(config, preset(config, "dp=2"), small_text());
    Engine parts(config, preset(config, "dp=2"), small_text());
    for (int i = 0; i < 2; ++i) {
      whole.step();
      parts.accumulate(parts.next_batch());
      parts.apply_gradients();
    }
    const double loss = whole.step().loss;
    // The mean of logs of sums of 50 exponentials, each of a sum of 32 products.
    EXPECT_NEAR(parts.step().loss, loss, loss * 0x1p-24 * (50 + 4 * 32));
  }
}

TEST(Variants, Train) {
  for (const char* variant : {"lamb", "muon", "lora"}) {
    RunConfig config = optimizers_run_of("gpt", variant);
    config.model.dropout = 0;
    config.optimizer.schedule.peak = 0.01;
    Engine engine(config, preset(config, "dp=2"), small_text());
    const double first = engine.step().loss;
    double last = first;
    for (int i = 0; i < 30; ++i) last = engine.step().loss;
    EXPECT_LT(last, first - 0.05) << variant;
  }
}

bool is_equal(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data(), b.data(), static_cast<size_t>(byte_size(a.type()).value())) == 0;
}

TEST(EngineFrozen, KeepTheirBitsAndHaveNoState) {
  const RunConfig config = optimizers_run_of("gpt", "frozen");
  Engine engine(config, preset(config, "dp=2,tp=2"), small_text());
  const TensorMap before = engine.variables();
  engine.step();
  for (const auto& [name, tensor] : engine.variables()) {
    const bool is_frozen = name.starts_with("tokens.") || name.starts_with("blocks.0.");
    EXPECT_EQ(is_equal(tensor, before.at(name)), is_frozen) << name;
    if (name.ends_with(".exp_avg")) {
      EXPECT_FALSE(is_frozen) << name;
    }
  }
}

TEST(EngineAdapters, BeginWithTheParametersOfACheckpointAndAreInTheirOwn) {
  SimulatedDisk disk;
  const RunConfig base = tiny_run("gpt"), adapted = optimizers_run_of("gpt", "lora");
  Engine pretrained(base, preset(base, "dp=2"), small_text());
  fit(pretrained, 3);
  CheckpointFolder folder(disk, "base");
  save_checkpoint(pretrained, folder, 0);
  Engine engine(adapted, preset(adapted, "dp=2,tp=2"), small_text());
  load_parameters(engine, Checkpoint(disk, find_checkpoint(disk, "base")));
  EXPECT_EQ(engine.step_count(), 0);
  const TensorMap stored = pretrained.variables(), loaded = engine.variables();
  int adapters = 0;
  for (const auto& [name, tensor] : loaded) {
    if (name.find(".lora_") != std::string::npos)
      ++adapters;
    else
      EXPECT_TRUE(is_equal(tensor, stored.at(name))) << name;
  }
  // Two layers of four products each, two matrices, of which each has two states.
  EXPECT_EQ(adapters, 2 * 4 * 2 * 3);
  fit(engine, 2);
  CheckpointFolder own(disk, "adapted");
  save_checkpoint(engine, own, 0);
  Engine resumed(adapted, preset(adapted, "pp=2"), small_text());
  restore(resumed, Checkpoint(disk, find_checkpoint(disk, "adapted")));
  for (const auto& [name, tensor] : resumed.variables())
    EXPECT_TRUE(is_equal(tensor, engine.variables().at(name))) << name;
}

TEST(EngineAdapters, ACheckpointOfAnotherModelIsRefused) {
  SimulatedDisk disk;
  RunConfig base = tiny_run("gpt");
  base.model.width = 16;
  Engine pretrained(base, serial_plan(), small_text());
  CheckpointFolder folder(disk, "base");
  save_checkpoint(pretrained, folder, 0);
  Engine engine(optimizers_run_of("gpt", "lora"), serial_plan(), small_text());
  try {
    load_parameters(engine, Checkpoint(disk, find_checkpoint(disk, "base")));
    FAIL() << "it was loaded";
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
    EXPECT_THAT(error.what_happened(), testing::HasSubstr("has no parameter 'blocks.0.attn."));
  }
}

}  // namespace
}  // namespace tessera
