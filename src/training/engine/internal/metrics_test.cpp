#include "training/engine/internal/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/models/family.h"
#include "training/engine/testing/own_network.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

/// A few roundings of f64.
constexpr double kRounding = 8 * 0x1p-53;

TEST(Metrics, AreReadFromOneEvaluation) {
  // 6 tokens stand for 8 bytes, each at a loss of ln 4: 4 equally probable tokens, 2 bits per
  // token, 12 bits over 8 bytes.
  const Evaluation evaluation{.loss = std::log(4.0),
                              .tokens = 6,
                              .bytes = 8,
                              .metrics = {{"accuracy", "", 0.5}, {"unseen", "", std::nullopt}}};
  EXPECT_NEAR(perplexity(evaluation), 4, 4 * kRounding);
  EXPECT_NEAR(bits_per_byte(evaluation), 1.5, 1.5 * kRounding);
  EXPECT_EQ(bits_per_byte({}), 0);
  EXPECT_EQ(evaluation.metric("accuracy"), 0.5);
  EXPECT_EQ(evaluation.metric("unseen"), std::nullopt);
  EXPECT_EQ(evaluation.metric("unknown"), std::nullopt);
}

std::vector<std::string> names_of_numbers(const Network& network) {
  std::vector<std::string> names;
  for (const MetricValue& number : numbers_of({}, network)) names.push_back(number.name);
  return names;
}

TEST(Metrics, OfLogsAreTheLossThoseOfTheNetworkAndWhatFollowsFromAnEntropy) {
  EXPECT_EQ(names_of_numbers(network_of({.kind = "gpt"})),
            (std::vector<std::string>{"loss", "perplexity", "accuracy", "bits_per_byte"}));
  EXPECT_EQ(names_of_numbers({.metrics = {{"far", "far_pixels", "pixels", ""}}}),
            (std::vector<std::string>{"loss", "far"}));
}

TensorMap results(std::initializer_list<float> sums, std::initializer_list<float> counts) {
  const auto size = static_cast<int64_t>(sums.size());
  TensorMap map;
  map["sums"] = Tensor::of<float>({size}, std::vector<float>(sums));
  map["counts"] = Tensor::of<float>({size}, std::vector<float>(counts));
  return map;
}

TEST(Metrics, AreMeansOverTheElementsThatWereCounted) {
  MetricSums overlap({"overlap", "sums", "counts", "pixels"});
  EXPECT_EQ(overlap.value().value, std::nullopt);
  overlap.add(results({1, 1, 0}, {2, 3, 0}), 1);
  overlap.add(results({0, 2, 0}, {2, 1, 0}), 1);
  EXPECT_EQ(overlap.value().value, (1.0 / 4 + 3.0 / 4) / 2);
  EXPECT_EQ(overlap.value().unit, "pixels");
}

TEST(Metrics, WithoutACountAreSharesOfTheRows) {
  MetricSums share({"share", "sums", "", ""});
  share.add(results({3}, {0}), 4);
  share.add(results({0}, {0}), 4);
  EXPECT_EQ(share.value().value, 3.0 / 8);
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
    EXPECT_GT(expected.metric("accuracy"), 0) << model << " hits nothing";
    EXPECT_LT(expected.metric("accuracy"), 1);
    EXPECT_EQ(expected.bytes, expected.tokens);  // a byte each
    for (const char* plan : {"dp2-tp2", "tp4", "pp2-dp2-m3"}) {
      Engine divided(config, plan_of(model, plan), small_text());
      divided.set_variables(serial.variables());
      const Evaluation found = divided.evaluate(1);
      EXPECT_EQ(found.tokens, expected.tokens);
      // Rounding may change the order of two nearly equal logits; with these few tokens, one
      // difference is allowed.
      EXPECT_NEAR(*found.metric("accuracy"), *expected.metric("accuracy"),
                  1.0 / static_cast<double>(expected.tokens))
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
    const auto logits = engine.text().predict({tokens.begin(), tokens.end()});
    hits += std::max_element(logits.begin(), logits.end()) - logits.begin() ==
            batch.at("labels").values<int32_t>()[row * 8 + 7];
  }
  EXPECT_EQ(evaluation.tokens, 48);
  EXPECT_GT(hits, 0);
  EXPECT_EQ(evaluation.metric("accuracy"), hits / 48.0);
}

/// The network of distances, each term of which counts a fraction.
Network network_of_fractions() {
  Network network = distance_network();
  network.forward = [](Forward& forward) {
    write_distance(forward);
    if (!forward.has_loss()) return;
    Builder& b = forward.builder();
    const ValueId count = *b.graph().find_value("second.count");
    forward.output("terms", b.mul_scalar(count, 0.07));
  };
  network.count = "terms";
  return network;
}

TEST(Metrics, TheLossIsTheMeanOverTheExactNumberOfTermsEvenIfThatIsAFraction) {
  // The terms of a batch are 0.07 of 9 or 10 counted pairs, which is below 1.
  Engine whole(distance_network(), distance_settings(), serial_plan(), pairs_of_points());
  Engine fractions(network_of_fractions(), distance_settings(), serial_plan(), pairs_of_points());
  const Evaluation expected = whole.evaluate(0), found = fractions.evaluate(0);
  EXPECT_NEAR(found.loss, expected.loss, 16 * 0x1p-24 * expected.loss);
  EXPECT_EQ(expected.tokens, 28);
  EXPECT_EQ(found.tokens, 2) << "0.07 x 28, rounded";
}

/// Labels 0, 1, 2, 0, 1, 2, ...
class Labels : public Dataset {
 public:
  explicit Labels(int64_t samples) : Dataset({{"label", {DType::kI32, {}}}}), samples_(samples) {}
  int64_t samples() const override { return samples_; }
  uint64_t fingerprint() const override { return 0x1abe1; }
  void write(int64_t sample, int64_t row, Batch& batch) const override {
    batch.row<int32_t>("label", row)[0] = static_cast<int32_t>(sample % 3);
  }

 private:
  int64_t samples_;
};

/// Learns the mean label. Labels of -1 are ignored; the metric "ones" is the share of the label 1.
Network mean_of_labels() {
  const auto forward = [](Forward& f) {
    Builder& b = f.builder();
    const TensorType rows{DType::kF32, {f.rows()}}, labels{DType::kI32, {f.rows()}};
    const ValueId mean = b.broadcast(
        b.variable("mean", {DType::kF32, {}}, Initializer::constant(0.5)), {f.rows()}, {});
    f.output("mean", mean);
    if (!f.has_loss()) return;
    const ValueId label = f.input("label", {DType::kI32, {}});
    const ValueId zeros = b.constant(rows, 0), ones = b.constant(rows, 1);
    const ValueId counted =
        b.select(b.compare("lt", label, b.constant(labels, 0)), zeros, ones, "counted");
    const ValueId error = b.sub(mean, b.cast(label, DType::kF32));
    const ValueId squares = b.mul(counted, b.unary("square", error));
    const ValueId count = b.reduce_sum(counted, {0});
    f.output("loss", b.div(b.reduce_sum(squares, {0}), count));
    f.output("count", count);
    if (f.purpose() != ForwardPurpose::kEvaluation) return;
    const ValueId is_one = b.compare("eq", label, b.constant(labels, 1));
    f.output("ones", b.reduce_sum(b.select(is_one, ones, zeros), {0}));
  };
  return {.name = "the network of labels",
          .forward = forward,
          .count = "count",
          .metrics = {{"ones", "ones"}},
          .targets = "label",
          .ignored_target = -1};
}

std::shared_ptr<const RunData> labels(int64_t held_out) {
  return std::make_shared<const RunData>(
      RunData{.train = std::make_shared<const Labels>(40),
              .held_out = std::make_shared<const Labels>(held_out),
              .unit = "label"});
}

TrainingSettings batches_of(int64_t rows) {
  TrainingSettings settings;
  settings.train.batch = rows;
  return settings;
}

TEST(Metrics, AMetricWithoutACountIsAShareOfTheRowsOfTheDataNotOfThoseThatFillUpTheLastBatch) {
  // The labels 0 1 2 0 | 1 2 0 and one row more.
  Engine engine(mean_of_labels(), batches_of(4), serial_plan(), labels(7));
  const Evaluation evaluation = engine.evaluate(0);
  EXPECT_EQ(evaluation.batches, 2);
  EXPECT_EQ(evaluation.tokens, 7);
  EXPECT_EQ(evaluation.metric("ones"), 2.0 / 7);
}

}  // namespace
}  // namespace tessera
