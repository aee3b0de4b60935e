#include "training/engine/testing/own_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/testing/error.h"
#include "ir/ops/compositions.h"
#include "training/checkpoint/testing/simulated_disk.h"
#include "training/engine/checkpointing.h"
#include "training/engine/programs/program_plans.h"
#include "training/engine/testing/losses.h"
#include "training/fit/fit.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

using error_testing::message_of;
using testing::HasSubstr;

/// Of a prediction, which is a sum of 16 products and a bias, all of them below 4.
constexpr double kOwnNetworkRounding = 4 * 17 * 0x1p-24;

Engine engine_on(const std::string& plan, EngineOptions options = {}) {
  return Engine(distance_network(), distance_settings(), distance_plan(plan), pairs_of_points(),
                std::move(options));
}

Batch held_out_rows(Range rows) {
  const Sampler sampler(
      {.samples = 40, .batch = rows.end, .shuffle = Shuffle::kNone, .tail = Tail::kDrop});
  return pairs_of_points()->held_out->batch(sampler, 0, rows);
}

TEST(OwnNetwork, LearnsByFitWithCallbacksAndItsMetricsAreLogged) {
  Engine engine = engine_on("dp2");
  const double before = engine.evaluate(3).loss;
  std::ostringstream printed;
  PrintProgress progress(printed);
  const FitResult result = fit(
      engine, {.steps = 60, .callbacks = {&progress}, .log_every = 60, .evaluate_at_end = true});
  const Evaluation& evaluation = result.evaluations.back().evaluation;
  EXPECT_LT(evaluation.loss, before / 2);
  EXPECT_EQ(result.steps.back().tokens, 12) << "rows, because there are no targets";
  EXPECT_EQ(evaluation.metrics[0].unit, "metres");
  EXPECT_THAT(printed.str(), HasSubstr("  val_absolute_error: 0."));
}

TEST(OwnNetwork, StopsEarlyByItsHeldOutLoss) {
  TrainingSettings settings = distance_settings();
  settings.optimizer.schedule.peak = 0;  // it learns nothing
  Engine engine(distance_network(), settings, serial_plan(), pairs_of_points());
  EarlyStop early({.patience = 2});
  const FitResult result = fit(engine, {.steps = 20, .callbacks = {&early}, .evaluate_every = 1});
  EXPECT_EQ(result.steps.size(), 3u) << "one evaluation sets the best, two are no better";
}

/// With the mean of the three largest predictions of a batch as a metric.
Network network_with_top_predictions() {
  Network network = distance_network();
  network.forward = [](Forward& forward) {
    write_distance(forward);
    if (forward.purpose() != ForwardPurpose::kEvaluation) return;
    Builder& b = forward.builder();
    const ValueId predicted = *b.graph().find_value("second.predicted");
    const Ordered top = top_k(b, predicted, 0, 3, "second.top");
    forward.output("top", b.reduce_sum(top.values, {0}, "second.top_sum"));
    forward.output("three", b.constant({DType::kF32, {}}, 3, "second.three"));
  };
  network.metrics.push_back({"top", "top", "three"});
  return network;
}

int64_t micro_batches_of_evaluation(const Network& network, const std::string& plan) {
  for (const PlannedProgram& program :
       planned_programs(network, distance_settings(), distance_plan(plan)))
    if (program.purpose == Purpose::kEvaluate) return program.plan.micro_batches;
  return 0;
}

// An evaluation has the micro-batches of a step, but a metric may need all rows at once.
TEST(OwnNetwork, AnEvaluationThatNeedsAllRowsAtOnceHasNoMicroBatches) {
  const auto evaluate = [](const Network& network, const std::string& plan) {
    Engine engine(network, distance_settings(), distance_plan(plan), pairs_of_points());
    fit(engine, 2);
    return engine.evaluate(3);
  };
  const Network network = network_with_top_predictions();
  EXPECT_EQ(micro_batches_of_evaluation(distance_network(), "dp2-m2"), 2);
  EXPECT_EQ(micro_batches_of_evaluation(network, "dp2-m2"), 1);
  const Evaluation serial = evaluate(network, "serial");
  for (const char* plan : {"serial-m3", "dp2-m2", "pp2-m4"}) {
    SCOPED_TRACE(plan);
    const Evaluation evaluation = evaluate(network, plan);
    EXPECT_NEAR(evaluation.loss, serial.loss, kOwnNetworkRounding);
    EXPECT_NEAR(*evaluation.metric("top"), *serial.metric("top"), kOwnNetworkRounding);
    EXPECT_NEAR(evaluate(distance_network(), plan).loss, serial.loss, kOwnNetworkRounding);
  }
}

// 40 pairs are held out: three batches of 12, and 4 pairs that fill none. Of pairs 130 to 165, each
// fifth, from 130 on, has no weight: 8 of 36.
TEST(OwnNetwork, EvaluationCountsTheRowsOfWholeBatchesByTheWeights) {
  Engine engine = engine_on("tp2");
  fit(engine, 3);
  const Evaluation evaluation = engine.evaluate(100);
  EXPECT_EQ(evaluation.batches, 3);
  EXPECT_EQ(evaluation.tokens, 36 - 8);
  const Batch batch = held_out_rows({0, 36});
  const TensorMap results = engine.predict(batch);
  const auto predicted = results.at("predicted").values<float>();
  double squares = 0, errors = 0;
  for (int64_t row = 0; row < 36; ++row) {
    if (row % 5 == 0) continue;
    const double error = static_cast<double>(predicted[row]) -
                         static_cast<double>(batch.row<float>("distance", row)[0]);
    squares += error * error;
    errors += std::abs(error);
  }
  // Each of the 28 predictions may be rounded otherwise; each sum has 12 terms.
  const double of_sums = 12 * 0x1p-24;
  EXPECT_NEAR(evaluation.loss, squares / 28,
              (2 * kOwnNetworkRounding * errors + of_sums * squares) / 28);
  EXPECT_NEAR(*evaluation.metric("absolute_error"), errors / 28,
              kOwnNetworkRounding + of_sums * errors / 28);
}

TEST(OwnNetwork, PredictsAnyNumberOfRowsUnderEveryPlan) {
  Engine serial = engine_on("serial");
  const TensorMap whole = serial.predict(held_out_rows({0, 5}));
  EXPECT_EQ(whole.at("predicted").type(), (TensorType{DType::kF32, {5}}));
  for (const char* plan : {"dp2", "tp2", "pp2"}) {
    Engine engine = engine_on(plan);
    for (const int64_t rows : {5, 2, 5}) {
      const TensorMap results = engine.predict(held_out_rows({0, rows}));
      for (int64_t row = 0; row < rows; ++row)
        EXPECT_NEAR(results.at("predicted").values<float>()[row],
                    whole.at("predicted").values<float>()[row], 17 * 0x1p-24)
            << plan;
    }
  }
}

TEST(OwnNetwork, IsVerifiedTensorByTensorUnderEveryPlan) {
  for (const char* plan : {"dp2", "tp2", "dp2-tp2", "pp2", "pp2-m3"}) {
    const VerifyReport report = verify_plan(distance_network(), distance_settings(),
                                            distance_plan(plan), pairs_of_points(), {.steps = 3});
    EXPECT_TRUE(report.ok) << plan << " "
                           << (report.first_difference ? report.first_difference->value : "");
    EXPECT_GT(report.tensors, 50) << plan;
  }
}

TEST(OwnNetwork, ResumesWithTheSameBits) {
  SimulatedDisk disk;
  CheckpointFolder folder(disk, "run");
  Engine whole = engine_on("dp2");
  fit(whole, 3);
  save_checkpoint(whole, folder, 0);
  const std::vector<double> expected = losses(whole, 3);
  Engine resumed = engine_on("dp2", {.runtime = {}, .initialize = false});
  restore(resumed, Checkpoint(disk, folder.path_of(3)));
  EXPECT_EQ(losses(resumed, 3), expected);
}

TEST(OwnNetwork, TheCommandLineRefusesItsCheckpointBecauseItCannotMakeTheNetwork) {
  SimulatedDisk disk;
  CheckpointFolder folder(disk, "run");
  Engine engine = engine_on("serial");
  save_checkpoint(engine, folder, 0);
  EXPECT_THAT(
      message_of(ExitCode::kBadData, [&] { stored_run(Checkpoint(disk, folder.path_of(0))); }),
      HasSubstr("has no [model]"));
}

// Without dropout, two batches of 10 rows compute what one of 20 rows does, because both count 8.
TEST(OwnNetwork, AccumulatesTheGradientsOfItsOwnLossWithItsGroups) {
  Network network = distance_network();
  network.forward = [](Forward& forward) { write_distance(forward, 0); };
  TrainingSettings parts = distance_settings();
  parts.optimizer.kind = OptimizerKind::kSgd;
  parts.order.shuffle = Shuffle::kNone;
  parts.train.batch = 10;
  TrainingSettings joined = parts;
  joined.train.batch = 20;
  Engine whole(network, joined, serial_plan(), pairs_of_points()),
      halves(network, parts, distance_plan("dp2"), pairs_of_points());
  const FitResult result = fit(halves, {.steps = 2, .accumulate = 2});
  const std::vector<double> expected = losses(whole, 2);
  // A term of the loss is the square of an error below 2, and the second step adds its own
  // rounding.
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(result.steps[i].loss, expected[i], 2 * 2 * 2 * kOwnNetworkRounding);
}

// ---- errors ----

/// The exit code and the message of the constructor.
std::string refusal_of(const Network& network, const std::shared_ptr<const RunData>& data) {
  return message_of([&] { Engine(network, distance_settings(), serial_plan(), data); });
}

TEST(OwnNetwork, ALossThatIsNoScalarIsRefused) {
  Network network = distance_network();
  network.loss = "predicted";
  EXPECT_EQ(refusal_of(network, pairs_of_points()),
            "65 the loss of the network of distances is f32[12]\n"
            "  why: it is one number, f32[]\n"
            "  fix: reduce 'predicted' over all its dims, for instance by Builder::reduce_sum");
}

TEST(OwnNetwork, ALossThatIsNoOutputIsRefused) {
  Network network = distance_network();
  network.loss = "los";
  EXPECT_EQ(refusal_of(network, pairs_of_points()),
            "65 the network of distances has no output 'los' for training\n"
            "  why: the loss reads it; the outputs are 'predicted', 'loss', 'count'\n"
            "  fix: call Forward::output with this name, or name another output in the Network");
}

TEST(OwnNetwork, AnInputThatTheDataLacksIsRefused) {
  const auto digits = std::make_shared<const DrawnDigits>(DrawingOptions{.samples = 20});
  const auto data = std::make_shared<const RunData>(RunData{.train = digits, .held_out = digits});
  EXPECT_EQ(refusal_of(distance_network(), data),
            "78 the data does not fit the network of distances\n"
            "  why: it takes samples with left f32[6]; the data has images f32[1,16,16], labels "
            "i32[]\n"
            "  fix: choose data of such samples (in a configuration: data.kind), or another model");
}

TEST(OwnNetwork, AnInputWithoutRowsIsRefused) {
  Network network = distance_network();
  network.forward = [](Forward& forward) {
    Builder& b = forward.builder();
    const ValueId w = b.variable("w", {DType::kF32, {2}}, Initializer::constant(1));
    const ValueId x = b.input("x", {DType::kF32, {2}});
    forward.output("loss", b.reduce_sum(b.mul(w, x), {0}));
    forward.output("count", b.reduce_sum(x, {0}));
  };
  EXPECT_THAT(refusal_of(network, pairs_of_points()),
              HasSubstr("the input 'x' of the network of distances is f32[2]\n"
                        "  why: every input has the 12 rows of the batch in front"));
}

TEST(OwnNetwork, TwoMetricsOfOneNameAreRefused) {
  Network network = distance_network();
  network.metrics.push_back({"absolute_error", "loss", "count", ""});
  EXPECT_EQ(refusal_of(network, pairs_of_points()),
            "78 the network of distances has two metrics called 'absolute_error'\n"
            "  why: logs and results find a metric by its name\n"
            "  fix: give each metric a name of its own");
}

TEST(OwnNetwork, AMetricOfAnOutputThatIsNotThereIsRefusedBeforeTraining) {
  Network network = distance_network();
  network.metrics.push_back({"hits", "hit", "count", ""});
  EXPECT_THAT(refusal_of(network, pairs_of_points()),
              HasSubstr("the network of distances has no output 'hit' for evaluation\n"
                        "  why: the metric 'hits' reads it; the outputs are 'predicted', "));
}

TEST(OwnNetwork, AVariableThatOnlyEvaluationHasIsRefused) {
  Network network = distance_network();
  network.forward = [](Forward& forward) {
    const auto scope = forward.builder().scope(forward.is_training() ? "trained" : "evaluated");
    write_distance(forward);
  };
  network.groups.clear();
  EXPECT_THAT(refusal_of(network, pairs_of_points()),
              HasSubstr("65 the network of distances evaluates or predicts with the variable "
                        "'evaluated.first.weight' f32[6,16]"));
}

TEST(OwnNetwork, AGroupThatMatchesNothingIsRefused) {
  Network network = distance_network();
  network.groups.push_back({.pattern = "third.*"});
  EXPECT_THAT(refusal_of(network, pairs_of_points()),
              HasSubstr("the parameter group 'third.*' has no parameter"));
}

TEST(OwnNetwork, ABatchWithoutAnInputOfThePredictionIsRefused) {
  Engine engine = engine_on("serial");
  Batch batch;
  batch.resize({{"left", {DType::kF32, {kPointDims}}}}, 3);
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { engine.predict(batch); }),
            "a batch without right does not fit this prediction\n"
            "  why: with 3 rows it takes right f32[3,6]\n"
            "  fix: give a batch of such tensors, all with the same rows");
}

TEST(OwnNetwork, TextIsNotItsTask) {
  Engine engine = engine_on("serial");
  try {
    engine.text().generate({1}, 1, {});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("the network of distances does not predict the next token"));
  }
}

/// The refusal of an engine of the network of distances with these settings and this plan.
std::string refusal_of(const TrainingSettings& settings, const Plan& plan) {
  return error_testing::message_of(
      ExitCode::kBadConfig, [&] { Engine(distance_network(), settings, plan, pairs_of_points()); });
}

TEST(OwnNetwork, SettingsThatAConfigurationCouldNotHaveAreRefusedByTheSameRules) {
  using Change = std::function<void(TrainingSettings&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"train.batch = 0", [](auto& s) { s.train.batch = 0; }},
      {"train.batch = -3", [](auto& s) { s.train.batch = -3; }},
      {"train.batch_per_rank = -1", [](auto& s) { s.train.batch_per_rank = -1; }},
      {"train.steps = -1", [](auto& s) { s.train.steps = -1; }},
      {"train.evaluate_every = -1", [](auto& s) { s.train.evaluate_every = -1; }},
      {"train.precision = \"i32\"", [](auto& s) { s.train.precision.dtype = DType::kI32; }},
      {"train.gradient_precision is \"bf16\"",
       [](auto& s) { s.train.precision.gradients = DType::kBF16; }},
      {"train.loss_scale is 3",
       [](auto& s) { s.train.precision = {.dtype = DType::kF16, .scale = {.initial = 3}}; }},
      {"optimizer.learning_rate = -1", [](auto& s) { s.optimizer.schedule.peak = -1; }},
      {"optimizer.learning_rate = \"NaN\"", [](auto& s) { s.optimizer.schedule.peak = NAN; }},
      {"optimizer.warmup = -1", [](auto& s) { s.optimizer.schedule.warmup = -1; }},
      {"Schedule::steps is -1", [](auto& s) { s.optimizer.schedule.steps = -1; }},
      {"optimizer.beta1 = 2", [](auto& s) { s.optimizer.beta1 = 2; }},
      {"optimizer.epsilon = 0", [](auto& s) { s.optimizer.epsilon = 0; }},
      {"optimizer.clip_norm = -1", [](auto& s) { s.optimizer.clip_norm = -1; }},
      {"checkpoint.keep_last = -1", [](auto& s) { s.checkpoint.keep_last = -1; }}};
  for (const auto& [message, change] : changes) {
    TrainingSettings settings = distance_settings();
    change(settings);
    EXPECT_THAT(refusal_of(settings, serial_plan()), testing::HasSubstr(message));
  }
}

TEST(OwnNetwork, SettingsThatOnlyTheCommandLineNeedsAreNotRefused) {
  TrainingSettings settings = distance_settings();
  settings.train.seed = ~uint64_t{0};
  // The program evaluates itself.
  settings.checkpoint.keep_best = true;
  EXPECT_EQ(refusal_of(settings, serial_plan()), "nothing was thrown");
}

TEST(OwnNetwork, PlansThatAFileCouldNotHaveAreRefused) {
  using Change = std::function<void(Plan&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"plan 'dp2' has micro_batches = 0", [](Plan& plan) { plan.micro_batches = 0; }},
      {"plan 'dp2' has accumulate = -1", [](Plan& plan) { plan.accumulate = -1; }},
      {"plan 'dp2' has collective_matmul = 100", [](Plan& plan) { plan.collective_matmul = 100; }},
      {"plan 'dp2' has a mesh '", [](Plan& plan) { plan.meshes[0].mesh = nullptr; }}};
  Engine engine(distance_network(), distance_settings(), serial_plan(), pairs_of_points());
  for (const auto& [message, change] : changes) {
    Plan plan = distance_plan("dp2");
    change(plan);
    EXPECT_THAT(refusal_of(distance_settings(), plan), testing::StartsWith(message));
    EXPECT_THROW(engine.switch_plan(plan), UserError) << message;
  }
}

TEST(OwnNetwork, AnEngineWithoutTrainingDataIsRefused) {
  for (const auto& data : {std::shared_ptr<const RunData>(), std::make_shared<const RunData>()})
    EXPECT_THAT(
        message_of(ExitCode::kBadData,
                   [&] { Engine(distance_network(), distance_settings(), serial_plan(), data); }),
        testing::StartsWith("an engine was made without training data"));
}

}  // namespace
}  // namespace tessera
