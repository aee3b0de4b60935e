#include "training/engine/data/batch_rule.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "training/engine/testing/runs.h"

namespace tessera {
namespace {

RunConfig per_rank(RateScaling scaling) {
  RunConfig config = tiny_gpt();
  config.train.batch_per_rank = 3;
  config.train.scale_learning_rate = scaling;
  config.optimizer.schedule = {.kind = ScheduleKind::kConstant, .peak = 0.25, .warmup = 3};
  return config;
}

TEST(BatchRule, DataParallelRanksArePartsOfTheRows) {
  for (const auto& [plan, ranks] :
       std::vector<std::pair<std::string, int64_t>>{{"serial", 1},
                                                    {"dp4", 4},
                                                    {"tp4", 1},
                                                    {"dp2-tp2", 2},
                                                    {"pp2", 1},
                                                    {"pp2-dp3", 3},
                                                    {"dp3:1-tp2", 2},
                                                    {"pp2-dp2-tp2-m3", 2}})
    EXPECT_EQ(data_parallel_ranks(tiny_gpt(), plan_of("gpt", plan)), ranks) << plan;
}

TEST(BatchRule, RowsOfEachRankMakeTheBatchAndLinearScalingTheRate) {
  const RunConfig config = resolved_for(per_rank(RateScaling::kLinear), plan_of("gpt", "dp4"));
  EXPECT_EQ(config.train.batch, 12);
  EXPECT_EQ(config.optimizer.schedule.peak, 1.0);
  // The warm-up rises from 0.25, the rate of one rank, to 1 in three equal steps of 0.25.
  EXPECT_EQ(learning_rate(config.optimizer.schedule, 0), 0.5);
  EXPECT_EQ(learning_rate(config.optimizer.schedule, 1), 0.75);
  EXPECT_EQ(learning_rate(config.optimizer.schedule, 2), 1.0);
  EXPECT_EQ(learning_rate(config.optimizer.schedule, 9), 1.0);
}

TEST(BatchRule, WithoutScalingTheRateStays) {
  const RunConfig config = resolved_for(per_rank(RateScaling::kNone), plan_of("gpt", "dp4"));
  EXPECT_EQ(config.train.batch, 12);
  EXPECT_EQ(config.optimizer.schedule.peak, 0.25);
  EXPECT_EQ(config.optimizer.schedule.warmup_start, 0);
}

TEST(BatchRule, AFixedBatchKeepsItsRateUnderEveryPlan) {
  RunConfig config = per_rank(RateScaling::kLinear);
  config.train.batch_per_rank = 0;
  config.train.batch = 6;
  config = resolved_for(config, plan_of("gpt", "dp2"));
  EXPECT_EQ(config.train.batch, 6);
  EXPECT_EQ(config.optimizer.schedule.peak, 0.25);
}

TEST(BatchRule, ASecondCallChangesNothing) {
  const Plan plan = plan_of("gpt", "dp2");
  const RunConfig once = resolved_for(per_rank(RateScaling::kLinear), plan),
                  twice = resolved_for(once, plan);
  EXPECT_EQ(twice.train.batch, once.train.batch);
  EXPECT_EQ(twice.optimizer.schedule.peak, once.optimizer.schedule.peak);
}

TEST(BatchRule, TheEngineTakesItsBatchFromThePlan) {
  Engine engine(per_rank(RateScaling::kLinear), plan_of("gpt", "dp2"), small_text());
  const StepResult result = engine.step();
  EXPECT_EQ(result.tokens, 2 * 3 * 8);
  EXPECT_EQ(result.learning_rate,
            0.25f + 0.25f / 3);  // the first third of the way from 0.25 to 0.5
}

TEST(BatchRule, BothBatchesAtOnceAreRefused) {
  const TestFolder folder;
  const std::string file = folder / "both.toml";
  std::ofstream(file) << "[data]\npath = \"x\"\n[train]\nbatch = 4\n";
  EXPECT_EQ(read_config(file).train.batch, 4);
  try {
    read_config(file, {"train.batch_per_rank=2"});
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_EQ(error.what_happened(), file + ": train.batch and train.batch_per_rank are both set");
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
  }
}

}  // namespace
}  // namespace tessera
