#include "training/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/testing/error.h"
#include "training/engine/testing/losses.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

TEST(Engine, TrainsSeriallyAndTheLossFalls) {
  Engine engine(tiny_gpt(), serial_plan(), small_text());
  const auto list = losses(engine, 30);
  EXPECT_LT(list.back(), list.front() * 0.8);
}

using ModelAndPlan = std::pair<std::string, std::string>;

std::string test_name(const testing::TestParamInfo<ModelAndPlan>& given) {
  std::string name = given.param.first + "_" + given.param.second;
  std::replace(name.begin(), name.end(), '-', '_');
  std::replace(name.begin(), name.end(), ':', 'w');
  return name;
}

// The conformance program has two steps of many plans of presets; these are longer, by marks.
TEST(Verify, OfTwentyStepsUnderMarksFindsNoDifference) {
  for (const auto& [model, plan] :
       {ModelAndPlan{"gpt", "dp3:1-tp2"}, {"mlp", "pp2-dp2-m8"}, {"two_tower", "pp3-m4"}}) {
    const VerifyReport report =
        verify_plan(tiny_run(model), plan_of(model, plan), small_text(), {.steps = 20});
    EXPECT_TRUE(report.ok) << model << " " << plan << " "
                           << (report.first_difference ? report.first_difference->value : "");
    EXPECT_EQ(report.losses.size(), 20u);
  }
}

/// Operands that ops called `<prefix>...` need in another placement than they have, and results
/// that are kept in another placement than they are produced.
std::vector<std::string> exchanges_within(const Engine& engine, const std::string& prefix) {
  std::vector<std::string> lines;
  const Graph& graph = engine.compiled().graph;
  const ShardedGraph& sharded = engine.compiled().sharded;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (!op.name.starts_with(prefix)) continue;
    for (size_t operand = 0; operand < op.inputs.size(); ++operand) {
      const DistAttr lies = sharded.at(op.inputs[operand]);
      const DistAttr needed =
          input_attr(view(graph, op), sharded.rules[i], sharded.ops[i], static_cast<int>(operand));
      if (!(lies == needed))
        lines.push_back(op.name + ": " + to_text(lies) + " for " + to_text(needed));
    }
    for (size_t result = 0; result < op.outputs.size(); ++result) {
      const DistAttr lies = sharded.at(op.outputs[result]);
      const DistAttr made =
          output_attr(view(graph, op), sharded.rules[i], sharded.ops[i], static_cast<int>(result));
      if (!(lies == made)) lines.push_back(op.name + ": " + to_text(made) + " as " + to_text(lies));
    }
  }
  return lines;
}

TEST(Engine, TheRowsOfABatchAreDividedByTheWeightsOfTheAxis) {
  RunConfig config = tiny_gpt();
  config.train.batch = 9;
  const Engine engine(config, plan_of("gpt", "dp2:1"), small_text());
  const ValueId tokens = *engine.graph().find_value("tokens");
  const DistAttr& attr = engine.compiled().sharded.at(tokens);
  EXPECT_EQ(attr.local_shape({9, 8}, {0}), (Shape{6, 8}));
  EXPECT_EQ(attr.local_shape({9, 8}, {1}), (Shape{3, 8}));
  EXPECT_EQ(engine.position().part_weights, (std::vector<int64_t>{2, 1}));
}

TEST(Engine, GroupedHeadsAreDividedWithTheirKeysAndNothingIsExchangedBetweenThem) {
  // There are two heads of keys on two ranks, each with its two heads of queries.
  const Engine engine(tiny_llama(), plan_of("llama", "tp2"), small_text());
  for (const std::string part : {"q.rotary", "k.rotary", "k.repeated", "v.repeated", "mix"})
    EXPECT_THAT(exchanges_within(engine, "blocks.0.attn." + part), testing::IsEmpty()) << part;
  const Graph& graph = engine.compiled().graph;
  const ValueId repeated = *graph.find_value("blocks.0.attn.k.repeated.heads");
  EXPECT_THAT(exchanges_within(engine, "blocks.0.dropout1"),
              testing::SizeIs(1));  // the sum over the heads
  EXPECT_EQ(to_text(graph.type(repeated), engine.compiled().sharded.at(repeated)),
            "f32[8, 8, 4@tp, 8]");
}

TEST(Engine, PredictsWithEachFamily) {
  for (const std::string model :
       {"gpt", "gpt_tied", "mlp", "llama", "two_tower", "encoder_decoder"}) {
    Engine engine(tiny_run(model), serial_plan(), small_text());
    for (size_t known : {1u, 5u, 8u, 20u}) {
      const std::vector<int32_t> tokens(known, 3);
      EXPECT_EQ(engine.text().predict(tokens).size(), 50u) << model << " " << known;
      std::vector<int32_t> other = tokens;
      other.back() = 4;
      EXPECT_NE(engine.text().predict(other), engine.text().predict(tokens))
          << model << " does not look at the last of " << known << " tokens";
    }
  }
}

TEST(Engine, ASecondRunGivesTheSameBits) {
  Engine one(tiny_gpt(), plan_of("gpt", "dp2-tp2"), small_text());
  Engine two(tiny_gpt(), plan_of("gpt", "dp2-tp2"), small_text());
  EXPECT_EQ(losses(one, 8), losses(two, 8));
  const TensorMap a = one.variables(), b = two.variables();
  for (const auto& [name, tensor] : a)
    EXPECT_EQ(std::memcmp(tensor.data(), b.at(name).data(),
                          static_cast<size_t>(byte_size(tensor.type()).value())),
              0)
        << name;
}

TEST(BetweenSteps, WhatIsAskedSeesTheStepBeforeAndLeavesTheStepAfter) {
  Engine plain(tiny_gpt(), plan_of("gpt", "pp2-dp2"), small_text()),
      asked(tiny_gpt(), plan_of("gpt", "pp2-dp2"), small_text());
  Engine serial(tiny_gpt(), serial_plan(), small_text());
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(plain.step().loss, asked.step().loss) << "step " << step;
    const TensorMap now = asked.variables();
    for (const auto& [name, tensor] : plain.variables())
      EXPECT_EQ(std::memcmp(tensor.data(), now.at(name).data(),
                            static_cast<size_t>(byte_size(tensor.type()).value())),
                0)
          << name;
    // The serial evaluation of the parameters after the step, and the evaluation under the plan
    // itself, differ only by rounding.
    serial.set_variables(now);
    const double loss = asked.evaluate(1).loss;
    EXPECT_NEAR(serial.evaluate(1).loss, loss, loss * 0x1p-24 * (256 + 4 * 32));
    asked.text().generate({10, 20}, 3, {.temperature = 0});
  }
}

TEST(BetweenSteps, ALearningRateCountsFromTheNextStep) {
  Engine engine(tiny_gpt(), serial_plan(), small_text());
  const double of_schedule = engine.step().learning_rate;
  ASSERT_GT(of_schedule, 0);
  engine.set_learning_rate(0);
  const TensorMap before = engine.variables();
  EXPECT_EQ(engine.step().learning_rate, 0);
  const std::string weight = engine.graph().value(engine.graph().variables().front().value).name;
  EXPECT_EQ(to_reference(engine.variables().at(weight)).values,
            to_reference(before.at(weight)).values)
      << "nothing is learned at rate 0";
  engine.set_learning_rate(std::nullopt);
  EXPECT_EQ(engine.step().learning_rate,
            static_cast<float>(learning_rate(engine.config().optimizer.schedule, 2)));
  EXPECT_THROW(engine.set_learning_rate(-1), UserError);
}

class Use : public testing::TestWithParam<ModelAndPlan> {};

TEST_P(Use, EvaluatesAndGeneratesAsTheSerialPlanDoes) {
  const auto& [model, plan] = GetParam();
  Engine serial(tiny_run(model), serial_plan(), small_text());
  Engine parallel(tiny_run(model), plan_of(model, plan), small_text());
  parallel.set_variables(serial.variables());
  const Engine::Evaluation a = serial.evaluate(2), b = parallel.evaluate(2);
  EXPECT_EQ(a.tokens, b.tokens);
  // The loss is the mean of `tokens` logs, each of a sum of `vocabulary` exponentials of sums of
  // `width` products, whose errors add.
  EXPECT_NEAR(a.loss, b.loss, a.loss * 0x1p-24 * (256 + 4 * 32));
  EXPECT_EQ(serial.text().generate({10, 20, 30}, 12, {.temperature = 0}),
            parallel.text().generate({10, 20, 30}, 12, {.temperature = 0}));
}

INSTANTIATE_TEST_SUITE_P(Engine, Use,
                         testing::Values(ModelAndPlan{"gpt", "dp2-tp2"},
                                         ModelAndPlan{"gpt_tied", "pp2-m2"},
                                         ModelAndPlan{"mlp", "pp2-dp2"},
                                         ModelAndPlan{"llama", "pp2-dp2-tp2"},
                                         ModelAndPlan{"two_tower", "pp3-m4"},
                                         ModelAndPlan{"encoder_decoder", "pp2-dp2"}),
                         test_name);

/// The rule of one op as if its author had forgotten that a divided sum leaves partial results.
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

Engine evaluating(const std::string& plan) {
  EngineOptions options;
  options.purpose = Purpose::kEvaluate;
  return {tiny_gpt(), plan_of("gpt", plan), small_text(), options};
}

TEST(Engine, TheVariablesOfAnEvaluationAreTheParameters) {
  Engine trained(tiny_gpt(), serial_plan(), small_text());
  TensorMap parameters;
  for (const Variable& variable : trained.graph().variables())
    if (variable.trainable) {
      const std::string& name = trained.graph().value(variable.value).name;
      parameters.emplace(name, trained.runtime().variable(name));
    }
  for (const std::string plan : {"serial", "dp2-tp2", "pp2"}) {
    const TensorMap found = evaluating(plan).variables();
    ASSERT_EQ(found.size(), parameters.size()) << plan;
    for (const auto& [name, value] : parameters) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_EQ(std::memcmp(found.at(name).data(), value.data(),
                            static_cast<size_t>(byte_size(value.type()).value())),
                0)
          << name;
    }
  }
}

TEST(Engine, AnEvaluationTakesTheVariablesOfATrainingWithoutItsOptimizerState) {
  Engine trained(tiny_gpt(), plan_of("gpt", "tp4"), small_text());
  fit(trained, 3);
  const TensorMap all = trained.variables();
  Engine engine = evaluating("dp2-tp2");
  const double before = engine.evaluate(2).loss;
  engine.set_variables(all);
  EXPECT_NE(engine.evaluate(2).loss, before);
  // Means of 16 rows of 8 tokens, in another order.
  EXPECT_NEAR(engine.evaluate(2).loss, trained.evaluate(2).loss, 128 * 0x1p-24 * before);
}

TEST(Engine, VariablesThatTheNetworkDoesNotHaveAreRefusedAndNoneIsSet) {
  Engine engine = evaluating("serial");
  TensorMap given = engine.variables();
  const std::string first = given.begin()->first;
  given.at(first).values<float>()[0] += 1;
  given["zero.weight"] = Tensor::scalar(1.0f);
  EXPECT_EQ(error_testing::message_of(ExitCode::kBadData, [&] { engine.set_variables(given); })
                .substr(0, 41),
            "the network has no variable 'zero.weight'");
  given.erase("zero.weight");
  given["head.weight"] = Tensor::scalar(1.0f);
  EXPECT_THAT(error_testing::message_of(ExitCode::kBadData, [&] { engine.set_variables(given); }),
              testing::HasSubstr("variable 'head.weight' is given as f32[]\n"
                                 "  why: the network has it as f32[32,50]"));
  EXPECT_NE(engine.variables().at(first).values<float>()[0], given.at(first).values<float>()[0]);
}

TEST(Verify, ReportsItsProgressWithinTheFirstStepAndUpToTheLast) {
  for (const int64_t steps : {1, 2}) {
    std::vector<double> done;
    VerifyOptions options;
    options.steps = steps;
    options.on_progress = [&](double now) { done.push_back(now); };
    verify_plan(tiny_mlp(), plan_of("mlp", "dp2"), small_text(), options);
    EXPECT_TRUE(std::ranges::is_sorted(done));
    EXPECT_GT(std::ranges::count_if(done, [](double now) { return now < 0.5; }), 2);
    EXPECT_EQ(done.back(), static_cast<double>(steps));
  }
  EXPECT_EQ(VerifyOptions{}.steps, 3);
}

TEST(Engine, EvaluatesAllHeldOutDataForNoNumberOfBatches) {
  Engine engine(tiny_gpt(), serial_plan(), small_text());
  const Evaluation all = engine.evaluate(0), first = engine.evaluate(1);
  EXPECT_EQ(all.batches, all.held_out_batches);
  EXPECT_EQ(all.tokens, engine.evaluate(1000).tokens);
  EXPECT_EQ(all.loss, engine.evaluate(1000).loss);
  EXPECT_LT(first.tokens, all.tokens);
}

TEST(Engine, DoesNotRunABrokenRule) {
  EngineOptions options;
  options.rules = broken_rule;
  try {
    Engine(tiny_gpt(), plan_of("gpt", "tp4"), small_text(), options);
    FAIL() << "a missing reduction was taken";
  } catch (const InternalError& error) {
    EXPECT_STREQ(
        error.what(),
        "internal error: placements: 'blocks.0.ffn.down.dot' holds partial values (sum over "
        "tp) and is declared to hold no partial values");
  }
}

}  // namespace
}  // namespace tessera
