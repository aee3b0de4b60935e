#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "engine/runs_for_tests.h"
#include "engine/verify.h"

namespace tessera {
namespace {

std::vector<double> losses(Engine& engine, int64_t steps) {
  std::vector<double> list;
  for (const StepResult& result : engine.fit(steps)) list.push_back(result.loss);
  return list;
}

TEST(Engine, TrainsSeriallyAndTheLossFalls) {
  Engine engine(tiny_gpt(), serial_plan(), small_text());
  const auto list = losses(engine, 30);
  EXPECT_LT(list.back(), list.front() * 0.8);
}

class EveryPlan : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(EveryPlan, ComputesWhatTheSerialProgramComputes) {
  const auto& [model, plan] = GetParam();
  const RunConfig config = model == "gpt" ? tiny_gpt() : tiny_mlp();
  const VerifyReport report = verify_plan(config, plan_of(model, plan), small_text(), {.steps = 20});
  EXPECT_TRUE(report.ok);
  if (report.first_difference) {
    const Difference& d = *report.first_difference;
    ADD_FAILURE() << "step " << d.step << " op " << d.op << " value " << d.value << " " << d.placement << " [" << d.index << "] "
                  << d.distributed << " serial " << d.serial << " tolerance " << d.tolerance;
  }
  EXPECT_GT(report.exact_tensors, 0);
  EXPECT_EQ(report.losses.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Plans, EveryPlan,
                         testing::Values(std::pair{"gpt", "serial"}, std::pair{"gpt", "dp4"}, std::pair{"gpt", "tp4"},
                                         std::pair{"gpt", "dp2-tp2"}, std::pair{"gpt", "dp3"}, std::pair{"gpt", "pp2"},
                                         std::pair{"gpt", "pp2-dp2"}, std::pair{"gpt", "pp2-dp2-tp2"}, std::pair{"mlp", "pp2"},
                                         std::pair{"mlp", "pp2-dp2"}, std::pair{"gpt", "serial-m3"}, std::pair{"gpt", "pp2-m2"},
                                         std::pair{"gpt", "pp2-dp2-m3"}, std::pair{"gpt", "pp2-dp2-tp2-m6"}, std::pair{"mlp", "pp2-m3"},
                                         std::pair{"mlp", "serial"}, std::pair{"mlp", "dp4"}, std::pair{"mlp", "tp4"},
                                         std::pair{"mlp", "dp2-tp2"}),
                         [](const auto& given) {
                           std::string name = given.param.first + "_" + given.param.second;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Engine, ASecondRunGivesTheSameBits) {
  Engine one(tiny_gpt(), plan_of("gpt", "dp2-tp2"), small_text());
  Engine two(tiny_gpt(), plan_of("gpt", "dp2-tp2"), small_text());
  EXPECT_EQ(losses(one, 8), losses(two, 8));
  const TensorMap a = one.variables(), b = two.variables();
  for (const auto& [name, tensor] : a)
    EXPECT_EQ(std::memcmp(tensor.data(), b.at(name).data(), static_cast<size_t>(byte_size(tensor.type()).value())), 0) << name;
}

TEST(Engine, EvaluatesAndGeneratesAlikeUnderEveryPlan) {
  Engine serial(tiny_gpt(), serial_plan(), small_text());
  Engine parallel(tiny_gpt(), plan_of("gpt", "dp2-tp2"), small_text());
  parallel.set_variables(serial.variables());
  const Engine::Evaluation a = serial.evaluate(2), b = parallel.evaluate(2);
  EXPECT_EQ(a.tokens, b.tokens);
  // The mean of `tokens` logs, each of a sum of `vocabulary` exponentials of sums of `width` products: their errors add to the loss.
  EXPECT_NEAR(a.loss, b.loss, a.loss * 0x1p-24 * (256 + 4 * 32));
  EXPECT_EQ(serial.generate({10, 20, 30}, 12, 0, 1), parallel.generate({10, 20, 30}, 12, 0, 1));
}

/// The rule of one op as it would be if its author had forgotten that a divided sum leaves partial results.
ShardingRule broken_rule(std::string_view kind, const OpView& op) {
  ShardingRule rule = catalogue_rule(kind, op);
  if (op.name == "blocks.0.ffn.down.dot")
    for (Factor& factor : rule.factors)
      if (factor.kind == FactorKind::kReduction) factor.kind = FactorKind::kParallel;
  return rule;
}

TEST(Verify, FindsABrokenRuleAndNamesTheOp) {
  VerifyOptions options{.steps = 2};
  options.rules = broken_rule;
  options.check_placements = false;
  const VerifyReport report = verify_plan(tiny_gpt(), plan_of("gpt", "tp4"), small_text(), options);
  EXPECT_FALSE(report.ok);
  ASSERT_TRUE(report.first_difference.has_value());
  EXPECT_EQ(report.first_difference->op, "blocks.0.ffn.down.dot");
}

TEST(Engine, DoesNotRunABrokenRule) {
  EngineOptions options;
  options.rules = broken_rule;
  try {
    Engine(tiny_gpt(), plan_of("gpt", "tp4"), small_text(), options);
    FAIL() << "a missing reduction was taken";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(),
                 "internal error: placements: 'blocks.0.ffn.down.dot' holds addends (sum over tp) and is declared to hold no addends");
  }
}

}  // namespace
}  // namespace tessera
