// The schedules of pipelines in whole runs: the order of passes never changes the results.
#include <gtest/gtest.h>

#include "training/engine/testing/runs.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

constexpr int64_t kMicroBatches = 8;

/// Four stages of a gpt of two blocks, on four ranks or folded on two.
Plan plan_under(PipelineKind kind) {
  Plan plan = plan_of("gpt", "pp4-m" + std::to_string(kMicroBatches));
  plan.schedule = kind;
  std::vector<Rank> ranks = {0, 1, 2, 3};
  if (kind == PipelineKind::kInterleaved) ranks = {0, 1, 0, 1};
  if (facts_of(kind).wants.find("in a V") != std::string_view::npos) ranks = {0, 1, 1, 0};
  for (size_t i = 0; i < ranks.size(); ++i)
    plan.meshes[i].mesh = std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"all"},
                                                       std::vector<Rank>{ranks[i]});
  return plan;
}

std::vector<float> schedules_losses_of(const Plan& plan, const std::string& model, int64_t steps) {
  Engine engine(tiny_run(model), plan, small_text());
  std::vector<float> losses;
  for (int64_t i = 0; i < steps; ++i) losses.push_back(engine.step().loss);
  return losses;
}

class EverySchedule : public testing::TestWithParam<PipelineKind> {};

TEST_P(EverySchedule, HasTheLossesOfTheSerialRunToTheLastBit) {
  constexpr int64_t kSteps = 6;
  EXPECT_EQ(schedules_losses_of(plan_under(GetParam()), "gpt", kSteps),
            schedules_losses_of(plan_of("gpt", "serial-m" + std::to_string(kMicroBatches)), "gpt",
                                kSteps));
}

std::vector<PipelineKind> all_kinds() {
  std::vector<PipelineKind> kinds;
  for (const PipelineFacts& facts : pipeline_schedules()) kinds.push_back(facts.kind);
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule, testing::ValuesIn(all_kinds()),
                         [](const auto& given) {
                           std::string name(to_text(given.param));
                           for (char& letter : name)
                             if (letter == '-') letter = '_';
                           return name;
                         });

TEST(Schedules, TheAutomaticOneTakesStagesThatDoNotFollowEachOther) {
  // Two independent towers, and the ops that join them.
  Plan plan = plan_of("two_tower", "pp3-m4");
  plan.schedule = PipelineKind::kAuto;
  const VerifyReport report = verify_plan(tiny_run("two_tower"), plan, small_text(), {.steps = 2});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "");
  EXPECT_EQ(schedules_losses_of(plan, "two_tower", 4),
            schedules_losses_of(plan_of("two_tower", "serial-m4"), "two_tower", 4));
}

TEST(Schedules, OneThatDoesNotFitTheMeshesIsRefusedWithThoseThatDo) {
  Plan plan = plan_under(PipelineKind::kOneForwardOneBackward);
  plan.schedule = PipelineKind::kZeroBubbleV;
  try {
    Engine engine(tiny_gpt(), plan, small_text());
    FAIL() << "zb-v was taken for four stages on four ranks";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "schedule 'zb-v' does not fit the stages of the plan\n"
        "  why: the stages are not placed in a V; it takes stages one after the other, two on the "
        "same "
        "ranks, in a V: the first where "
        "the last is\n"
        "  fix: change the meshes, or use one that fits these: f-then-b, 1f1b, eager-1f1b, "
        "interleaved, zb-h1, zb-h2, auto");
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
  }
}

// The actors of finer tasks run the same kernels.
TEST(TasksOfAPlan, OfAnyGranularityHaveTheSameLossesToTheLastBit) {
  using Kind = TaskGranularity::Kind;
  Plan plan = plan_of("gpt", "pp2");
  plan.micro_batches = 4;
  const std::vector<float> losses = schedules_losses_of(plan, "gpt", 4);
  for (const TaskGranularity& tasks : {TaskGranularity{Kind::kLayer}, TaskGranularity{Kind::kOp},
                                       TaskGranularity{Kind::kPatterns, {"*.attn.*", "*.ffn.*"}}}) {
    plan.tasks = tasks;
    EXPECT_EQ(schedules_losses_of(plan, "gpt", 4), losses);
  }
}

}  // namespace
}  // namespace tessera
