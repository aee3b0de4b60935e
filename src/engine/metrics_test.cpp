#include "engine/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/testing/runs.h"
#include "model/layers.h"
#include "ops/interpreter.h"
#include "training/fit.h"

namespace tessera {
namespace {

/// A few roundings of f64.
constexpr double kRounding = 8 * 0x1p-53;

TEST(Metrics, AreReadFromOneEvaluation) {
  // 6 tokens stand for 8 bytes, each at a loss of ln 4: 4 equally probable tokens, 2 bits per
  // token, 12 bits over 8 bytes.
  const Evaluation evaluation{.loss = std::log(4.0), .accuracy = 0.5, .tokens = 6, .bytes = 8};
  EXPECT_NEAR(perplexity(evaluation), 4, 4 * kRounding);
  EXPECT_NEAR(bits_per_byte(evaluation), 1.5, 1.5 * kRounding);
  EXPECT_EQ(bits_per_byte({}), 0);
  std::vector<std::string_view> names;
  for (const Metric& metric : metrics()) names.push_back(metric.name);
  EXPECT_EQ(names,
            (std::vector<std::string_view>{"loss", "perplexity", "accuracy", "bits_per_byte"}));
  EXPECT_EQ(metrics()[2].of(evaluation), 0.5);
}

TEST(Metrics, CorrectCountsTheFirstOfTheLikeliestAndNoLabelBelowZero) {
  Graph graph;
  Builder builder(graph);
  LayerContext context{builder, {}, false};
  const ValueId given = builder.input("logits", {DType::kF32, {1, 5, 3}}),
                counted = builder.input("labels", {DType::kI32, {1, 5}});
  graph.add_output("logits", given);
  cross_entropy(context, given, counted, "loss");
  add_correct_count(graph);
  Tensor logits(TensorType{DType::kF32, {1, 5, 3}}), labels(TensorType{DType::kI32, {1, 5}});
  const float rows[] = {0, 1, 0,  // 1: hit
                        2, 1, 0,  // 0: missed
                        1, 1, 0,  // 0 before 1: hit
                        1, 1, 0,  // 0 before 1: the label 1 is missed
                        9, 0, 0};
  const int32_t wanted[] = {1, 2, 0, 1, -1};
  std::copy(std::begin(rows), std::end(rows), logits.values<float>().begin());
  std::copy(std::begin(wanted), std::end(wanted), labels.values<int32_t>().begin());
  const auto results =
      interpret(graph, {{"logits", to_reference(logits)}, {"labels", to_reference(labels)}});
  EXPECT_EQ(results.at("correct.count").values[0], 2);
}

TEST(Metrics, OverlapCountsThePixelsOfEachClassByEitherAndByBoth) {
  Graph graph;
  Builder builder(graph);
  LayerContext context{builder, {}, false};
  const ValueId given = builder.input("logits", {DType::kF32, {1, 1, 5, 3}}),
                counted = builder.input("labels", {DType::kI32, {1, 1, 5}});
  graph.add_output("logits", given);
  cross_entropy(context, given, counted, "loss");
  add_correct_count(graph);
  add_iou_counts(graph);
  // Predicted are 0 0 1 1 1; the labels are 0 1 1 1 and one that does not count.
  const ReferenceTensor logits{{DType::kF32, {1, 1, 5, 3}},
                               {1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0}};
  const ReferenceTensor labels{{DType::kI32, {1, 1, 5}}, {0, 1, 1, 1, -1}};
  const auto results = interpret(graph, {{"logits", logits}, {"labels", labels}});
  EXPECT_EQ(results.at("overlap.intersections").values, (std::vector<double>{1, 2, 0}));
  EXPECT_EQ(results.at("overlap.unions").values, (std::vector<double>{2, 3, 0}));
}

TEST(Metrics, MeanOverlapLeavesOutClassesThatDoNotOccur) {
  IoUAccumulator overlap;
  EXPECT_EQ(overlap.mean(), std::nullopt);
  overlap.add(std::vector<float>{1, 1, 0}, std::vector<float>{2, 3, 0});
  overlap.add(std::vector<float>{0, 2, 0}, std::vector<float>{2, 1, 0});
  EXPECT_EQ(overlap.mean(), (1.0 / 4 + 3.0 / 4) / 2);
}

/// A run that learns the rule of small_text in this number of steps.
RunConfig quick_run(const std::string& model) {
  RunConfig config = tiny_run(model);
  config.model.dropout = 0;
  config.train.batch = 48;
  config.optimizer.schedule.peak = 1e-2;
  return config;
}

TEST(Metrics, AccuracyIsThatOfTheLogitsUnderEveryPlan) {
  for (const char* model : {"gpt", "mlp", "encoder_decoder"}) {
    const RunConfig config = quick_run(model);
    Engine serial(config, serial_plan(), small_text());
    fit(serial, std::string(model) == "mlp" ? 200 : 20);  // the mlp sees one label a row
    const Evaluation expected = serial.evaluate(1);
    EXPECT_GT(expected.accuracy, 0) << model << " hits nothing";
    EXPECT_LT(expected.accuracy, 1);
    EXPECT_EQ(expected.bytes, expected.tokens);  // a byte each
    for (const char* plan : {"dp2-tp2", "tp4", "pp2-dp2-m3"}) {
      Engine divided(config, plan_of(model, plan), small_text());
      divided.set_variables(serial.variables());
      const Evaluation found = divided.evaluate(1);
      EXPECT_EQ(found.tokens, expected.tokens);
      // Rounding may change the order of two nearly equal logits; with these few tokens, one
      // difference is allowed.
      EXPECT_NEAR(found.accuracy, expected.accuracy, 1.0 / static_cast<double>(expected.tokens))
          << model << " " << plan;
    }
  }
}

TEST(Metrics, PredictionsHitAsOftenAsTheAccuracySays) {
  const auto data = small_text();
  Engine engine(quick_run("mlp"), serial_plan(), data);
  fit(engine, 200);
  const Evaluation evaluation = engine.evaluate(1);
  const Dataset& held_out = *data->held_out;
  const Sampler sampler({.samples = held_out.samples(),
                         .batch = 48,
                         .parts = 1,
                         .shuffle = Shuffle::kNone,
                         .tail = Tail::kPad,
                         .seed = 0});
  const Batch batch = held_out.batch(sampler, 0, {0, 48});
  int hits = 0;
  for (size_t row = 0; row < 48; ++row) {
    const auto tokens = batch.at("tokens").values<int32_t>().subspan(row * 8, 8);
    const auto logits = engine.predict({tokens.begin(), tokens.end()});
    hits += std::max_element(logits.begin(), logits.end()) - logits.begin() ==
            batch.at("labels").values<int32_t>()[row * 8 + 7];
  }
  EXPECT_EQ(evaluation.tokens, 48);
  EXPECT_GT(hits, 0);
  EXPECT_EQ(evaluation.accuracy, hits / 48.0);
}

}  // namespace
}  // namespace tessera
