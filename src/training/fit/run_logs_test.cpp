#include "training/fit/run_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Document> lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<Document> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(parse_json(line, file.string()));
  return lines;
}

std::vector<std::string> events_of(const std::vector<Document>& lines) {
  std::vector<std::string> events;
  for (const Document& line : lines)
    events.push_back(line.find("log_type_name")->as_string() + " " +
                     std::to_string(line.find("step")->as_int()));
  return events;
}

TEST(MetricsLog, HasALineAStepAndALineAnEvaluation) {
  const TestFolder folder;
  RunConfig config = tiny_mlp();
  config.optimizer.clip_norm = 0;
  Engine engine(config, plan_of("mlp", "dp2"), small_text());
  MetricsLog log(folder / "metrics.jsonl");
  const FitResult result = fit(
      engine, {.steps = 2, .callbacks = {&log}, .evaluate_batches = 1, .evaluate_at_end = true});
  const auto lines = lines_of(folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].find("step")->as_int(), 2);
  EXPECT_EQ(lines[1].find("loss")->as_double(), result.steps[1].loss);
  EXPECT_EQ(lines[1].find("kind")->as_string(), "step");
  EXPECT_EQ(lines[1].find("tokens")->as_int(), 8 * 8);
  EXPECT_EQ(lines[1].find("learning_rate")->as_double(), 3e-3);  // not the nearest f32
  EXPECT_GT(lines[1].find("grad_norm")->as_double(), 0);         // also where nothing is clipped
  EXPECT_TRUE(lines[1].find("mfu")->is_null());
  EXPECT_GT(lines[1].find("tflops_per_device")->as_double(), 0);
  EXPECT_GT(lines[1].find("peak_bytes")->as_int(), 0);
  EXPECT_EQ(lines[2].find("kind")->as_string(), "evaluation");
  EXPECT_EQ(lines[2].find("val_tokens")->as_int(), result.evaluations[0].evaluation.tokens);
  EXPECT_EQ(lines[2].find("val_loss")->as_double(), result.evaluations[0].evaluation.loss);
  EXPECT_EQ(lines[2].find("val_accuracy")->as_double(),
            result.evaluations[0].evaluation.metric("accuracy"));
}

TEST(MetricsLog, TheNormOfASkippedStepIsUnknown) {
  const TestFolder folder;
  RunConfig config = tiny_mlp();
  config.train.precision.dtype = DType::kF16;
  config.train.precision.scale.initial = 0x1p24;
  config.model.width = 512;  // the gradients overflow
  Engine engine(config, serial_plan(), small_text());
  MetricsLog log(folder / "metrics.jsonl");
  const FitResult result = fit(engine, {.steps = 1, .callbacks = {&log}});
  ASSERT_TRUE(result.steps[0].skipped);
  const Document line = lines_of(folder / "metrics.jsonl").at(0);
  EXPECT_EQ(line.find("skipped")->as_int(), 1);
  EXPECT_TRUE(line.find("grad_norm")->is_null());
}

TEST(JsonLines, AFailureSaysItsReason) {
  const TestFolder folder;
  try {
    JsonLines(folder / "none" / "metrics.jsonl");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.why(), "No such file or directory");
  }
}

TEST(MetricsLog, DividesByThePeakOfTheDevicesThatItIsGiven) {
  const TestFolder folder;
  Engine engine(tiny_mlp(), plan_of("mlp", "dp2"), small_text());
  MetricsLog log(folder / "metrics.jsonl", DevicePeak{1e12, Flops(5e6)});
  const FitResult result = fit(engine, {.steps = 1, .callbacks = {&log}});
  const Document line = lines_of(folder / "metrics.jsonl").at(0);
  // Of two devices of half a Tflop/s each.
  EXPECT_DOUBLE_EQ(line.find("mfu")->as_double(), 2 * line.find("tflops_per_device")->as_double());
  EXPECT_DOUBLE_EQ(line.find("hfu")->as_double(), 5e6 / result.steps[0].time.value() / 1e12);
}

TEST(MetricsLog, HasTheExposedCommunicationAndTheBubbleOfTheRanks) {
  for (const bool divides : {false, true}) {
    const TestFolder folder;
    Engine engine(tiny_mlp(), divides ? plan_of("mlp", "dp2") : serial_plan(), small_text());
    MetricsLog log(folder / "metrics.jsonl");
    const FitResult result = fit(engine, {.steps = 1, .callbacks = {&log}});
    const Document line = lines_of(folder / "metrics.jsonl").at(0);
    ASSERT_TRUE(result.steps[0].ranks.has_value());
    const RankTime& ranks = *result.steps[0].ranks;
    EXPECT_GT(ranks.kernels.value(), 0);
    EXPECT_EQ(ranks.exposed.value() > 0, divides) << "a serial run exchanges nothing";
    EXPECT_DOUBLE_EQ(line.find("comm_exposed_ms")->as_double(), 1e3 * ranks.exposed.value());
    const double idle = (result.steps[0].time - ranks.kernels - ranks.exposed).value();
    EXPECT_DOUBLE_EQ(line.find("bubble_ms")->as_double(), std::max(0.0, 1e3 * idle));
  }
}

TEST(MetricsLog, GoesOnAfterWhatTheFileHolds) {
  const TestFolder folder;
  Engine engine(tiny_mlp(), serial_plan(), small_text());
  for (int part = 0; part < 2; ++part) {
    MetricsLog log(folder / "metrics.jsonl");
    fit(engine, {.steps = 1, .callbacks = {&log}});
  }
  const auto lines = lines_of(folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].find("step")->as_int(), 2);
}

TEST(RankLogs, HaveAFileARankWithTheEventsOfTheRun) {
  const TestFolder folder;
  Engine engine(tiny_mlp(), plan_of("mlp", "dp2"), small_text());
  RankLogs logs(folder.path(), engine, 3);
  fit(engine, {.steps = 5,
               .callbacks = {&logs},
               .evaluate_every = 4,
               .evaluate_batches = 1,
               .save = [](Engine&) {}});
  for (int64_t rank = 0; rank < 2; ++rank) {
    const auto lines = lines_of(folder / ("rank-0000" + std::to_string(rank) + ".jsonl"));
    EXPECT_THAT(events_of(lines),
                ElementsAre("start 0", "program_loaded 0", "step_end 1", "step_end 3", "evaluate 4",
                            "step_end 5", "save 5", "end 5"));
    int64_t number = 0, time = 0;
    for (const Document& line : lines) {
      EXPECT_EQ(line.find("rank")->as_int(), rank);
      EXPECT_EQ(line.find("seq_id")->as_int(), number++);
      EXPECT_GE(line.find("time_us")->as_int(), time);
      time = line.find("time_us")->as_int();
      EXPECT_FALSE(line.find("host_name")->as_string().empty());
    }
  }
}

TEST(RankLogs, AFailureIsWrittenDownBeforeTheEnd) {
  const TestFolder folder;
  RunConfig config = tiny_mlp();
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.clip_norm = 0;
  Engine engine(config, plan_of("mlp", "dp2"), small_text());
  engine.set_learning_rate(1e30);
  RankLogs logs(folder.path(), engine, 1);
  EXPECT_THROW(fit(engine, {.steps = 20, .callbacks = {&logs}}), UserError);
  const auto lines = lines_of(folder / "rank-00001.jsonl");
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines[lines.size() - 2].find("log_type_name")->as_string(), "failure");
  EXPECT_THAT(lines[lines.size() - 2].find("value")->as_string(), HasSubstr("is not a number"));
  EXPECT_EQ(lines.back().find("log_type_name")->as_string(), "end");
}

TEST(RunLogs, AFileThatCannotBeWrittenIsNamed) {
  try {
    MetricsLog log("/proc/none/metrics.jsonl");
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_EQ(error.what_happened(), "cannot write '/proc/none/metrics.jsonl'");
  }
}

}  // namespace
}  // namespace tessera
