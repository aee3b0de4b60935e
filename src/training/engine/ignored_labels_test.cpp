// Labels that are not counted, as data of users have them: in all rows of a rank, of a micro-batch
// and of a whole batch. Every plan computes what the serial program computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "planner/presets/presets.h"
#include "training/engine/testing/runs.h"

namespace tessera {
namespace {

constexpr int64_t kContext = 8, kBatch = 8;

/// Whether the targets of a row are counted: all of batch 0, none of the first half of the rows of
/// batch 1 (those of a rank, and of a micro-batch), only those of one row of batch 2, and none of
/// batch 3.
bool is_counted(int64_t row) {
  const int64_t batch = row / kBatch, place = row % kBatch;
  return batch == 0 || (batch == 1 && place >= kBatch / 2) || (batch == 2 && place == 3);
}

/// Four batches for training, and one to hold out, of which two rows are counted.
std::shared_ptr<const RunData> partly_labelled() {
  constexpr int64_t kRows = 4 * kBatch;
  const auto dataset = [](int64_t rows, const std::function<bool(int64_t)>& counts) {
    std::vector<int32_t> tokens, targets;
    for (int64_t i = 0; i <= rows * kContext; ++i) {
      tokens.push_back(static_cast<int32_t>(i * i % 37));
      const bool is_target = i > 0 && counts((i - 1) / kContext);
      targets.push_back(is_target ? tokens.back() : kIgnoredLabel);
    }
    return std::make_shared<const TextDataset>(tokens_in_memory(std::move(tokens)), kContext,
                                               kContext, tokens_in_memory(std::move(targets)));
  };
  auto data = std::make_shared<RunData>();
  data->classes = 50;
  data->train = dataset(kRows, is_counted);
  data->held_out = dataset(kBatch, [](int64_t row) { return row == 1 || row == 6; });
  return data;
}

RunConfig without_shuffling(DType dtype = DType::kF32) {
  RunConfig config = tiny_gpt();
  config.data.shuffle = Shuffle::kNone;
  config.train.batch = kBatch;
  config.train.precision.dtype = dtype;
  config.train.precision.scale.initial = 256;
  return config;
}

/// The steps of one epoch; every number is finite.
std::vector<StepResult> epoch(Engine& engine) {
  std::vector<StepResult> steps;
  for (int step = 0; step < 4; ++step) {
    steps.push_back(engine.step());
    EXPECT_TRUE(std::isfinite(steps.back().loss)) << step;
    EXPECT_TRUE(std::isfinite(steps.back().grad_norm)) << step;
    EXPECT_FALSE(steps.back().skipped) << step;
  }
  EXPECT_GT(steps[2].loss, 0);
  EXPECT_EQ(steps[3].loss, 0) << "no label of the batch is counted";
  EXPECT_EQ(steps[3].grad_norm, 0);
  return steps;
}

void expect_serial_losses(const RunConfig& config, const std::string& preset, double tolerance) {
  Engine serial(config, serial_plan(), partly_labelled());
  const std::vector<StepResult> expected = epoch(serial);
  Engine engine(config, preset_plan(parse_preset(preset), training_graph(config)),
                partly_labelled());
  const std::vector<StepResult> found = epoch(engine);
  for (size_t step = 0; step < expected.size(); ++step)
    EXPECT_NEAR(found[step].loss, expected[step].loss, tolerance) << preset << " step " << step;
  const Evaluation evaluation = engine.evaluate(0);
  EXPECT_EQ(evaluation.tokens, 2 * kContext) << preset;
  EXPECT_NEAR(evaluation.loss, serial.evaluate(0).loss, tolerance) << preset;
}

TEST(IgnoredLabels, OfARankAMicroBatchOrABatchChangeNoMean) {
  for (const char* preset : {"dp=2", "dp=4", "dp=2,micro_batches=2", "pp=2,micro_batches=4",
                             "dp=2,zero=3", "dp=2,pp=2,micro_batches=2,zero=1"})
    expect_serial_losses(without_shuffling(), preset, 1e-5);
}

// f16 has 11 bits, and a loss near 4 after a few layers a few roundings of 2^-11 of it.
TEST(IgnoredLabels, OfABatchSkipNoStepInF16) {
  for (const char* preset : {"dp=2", "pp=2,micro_batches=4", "dp=2,zero=2"})
    expect_serial_losses(without_shuffling(DType::kF16), preset, 4 * 8 * 0x1p-11);
}

}  // namespace
}  // namespace tessera
