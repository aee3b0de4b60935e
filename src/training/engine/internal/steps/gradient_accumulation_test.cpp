#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ir/models/family.h"
#include "training/engine/internal/steps/accumulation_programs.h"
#include "training/engine/internal/steps/step_parts.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

/// Whole batches of `rows` rows of the training text, in order.
std::vector<Batch> gradient_accumulation_batches_of(const RunData& data, int64_t rows,
                                                    int64_t count) {
  const Sampler sampler({.samples = data.train->samples(),
                         .batch = rows,
                         .parts = 1,
                         .shuffle = Shuffle::kNone,
                         .tail = Tail::kDrop,
                         .seed = 0});
  std::vector<Batch> batches;
  for (int64_t i = 0; i < count; ++i) batches.push_back(data.train->batch(sampler, i, {0, rows}));
  return batches;
}

RunConfig without_dropout(const std::string& model, int64_t batch) {
  RunConfig config = tiny_run(model);
  config.model.dropout = 0;
  config.train.batch = batch;
  return config;
}

bool same_bits(const TensorMap& a, const TensorMap& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& entry) {
           const Tensor& other = b.at(entry.first);
           return entry.second.type() == other.type() &&
                  std::memcmp(entry.second.data(), other.data(),
                              static_cast<size_t>(byte_size(other.type()).value())) == 0;
         });
}

/// The largest difference of an element, and its tensor.
std::pair<double, std::string> largest_difference(const TensorMap& a, const TensorMap& b) {
  std::pair<double, std::string> largest{0, ""};
  for (const auto& [name, tensor] : a) {
    const auto x = tensor.values<float>(), y = b.at(name).values<float>();
    for (size_t i = 0; i < x.size(); ++i)
      largest = std::max(largest, {std::abs(static_cast<double>(x[i]) - y[i]), name});
  }
  return largest;
}

TEST(GradientAccumulation, OneBatchInPartsIsAWholeStepToTheBit) {
  // The sums over the ranks are made in the same order, element by element, whether the gradients
  // are sent as one tensor or one by one. Dropout is the same too: the first batch of a step
  // samples the numbers of the step.
  for (const char* plan : {"serial", "dp4"}) {
    Engine whole(tiny_gpt(), plan_of("gpt", plan), small_text()),
        parts(tiny_gpt(), plan_of("gpt", plan), small_text());
    for (int step = 0; step < 3; ++step) {
      const StepResult expected = whole.step();
      EXPECT_EQ(parts.accumulate(parts.next_batch()), expected.loss) << plan;
      parts.all_reduce_gradients();
      const StepResult found = parts.apply_gradients();
      EXPECT_EQ(found.step, expected.step);
      EXPECT_EQ(found.loss, expected.loss);
      EXPECT_EQ(found.grad_norm, expected.grad_norm) << plan;
      EXPECT_EQ(found.tokens, expected.tokens);
      EXPECT_EQ(found.learning_rate, expected.learning_rate);
    }
    EXPECT_TRUE(same_bits(whole.variables(), parts.variables())) << plan;
  }
}

class JoinedBatch : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(JoinedBatch, TwoHalvesAreOneStepOnBoth) {
  const auto& [model, plan] = GetParam();
  const auto data = small_text();
  const auto halves = gradient_accumulation_batches_of(*data, 6, 4);
  const auto wholes = gradient_accumulation_batches_of(*data, 12, 2);
  RunConfig config = without_dropout(model, 6);
  // With plain gradient descent the error of a parameter is the error of its gradient times the
  // rate; Adam would divide small errors by small gradients.
  config.optimizer.kind = OptimizerKind::kMomentum;
  config.optimizer.schedule.peak = 0.1;
  RunConfig joined = config;
  joined.train.batch = 12;
  Engine serial(joined, serial_plan(), data), parts(config, plan_of(model, plan), data);
  for (size_t step = 0; step < 2; ++step) {
    const StepResult expected = serial.step(wholes[step]);
    const double first = parts.accumulate(halves[2 * step]);
    const double second = parts.accumulate(halves[2 * step + 1]);
    const StepResult found = parts.apply_gradients();
    EXPECT_EQ(found.loss, (first + second) / 2);
    // The longest sums have 12 * 8 tokens, 4 * 32 channels, 50 classes, in each of the model's some
    // 20 layers, forward and backward.
    const double roundings = 40 * std::sqrt(128.0) * 0x1p-24;
    EXPECT_NEAR(found.loss, expected.loss, roundings * expected.loss);
    EXPECT_NEAR(found.grad_norm, expected.grad_norm, roundings * expected.grad_norm);
    EXPECT_EQ(found.tokens, expected.tokens);
  }
  // A parameter moves by at most rate * (1 + momentum) * clipped norm per step.
  const auto [difference, name] = largest_difference(serial.variables(), parts.variables());
  EXPECT_LE(difference, 2 * 40 * std::sqrt(128.0) * 0x1p-24) << name;
}

INSTANTIATE_TEST_SUITE_P(
    Plans, JoinedBatch,
    testing::Values(std::pair{"gpt", "serial"}, std::pair{"gpt", "dp2"}, std::pair{"gpt", "dp3"},
                    std::pair{"gpt", "tp4"}, std::pair{"gpt", "dp2-tp2"},
                    std::pair{"gpt", "pp2-dp2"}, std::pair{"gpt", "pp2-dp2-tp2-m3"},
                    std::pair{"gpt", "serial-m2"}, std::pair{"mlp", "dp2-tp2"},
                    std::pair{"mlp", "pp2-dp2-m3"}, std::pair{"gpt_tied", "pp2-dp2"},
                    std::pair{"llama", "pp2-dp2-tp2-m2"}, std::pair{"two_tower", "pp2-dp2"},
                    std::pair{"encoder_decoder", "dp2-tp2"}),
    [](const auto& given) {
      std::string name = given.param.first + "_" + given.param.second;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

/// The exchanges of each part of a step: those that reduce the contributions of several ranks, and
/// those that only move data.
struct Exchanges {
  int sums = 0;
  int moves = 0;
};
std::map<Purpose, Exchanges> exchanges_of_parts(const std::string& model,
                                                const std::string& plan_name) {
  const RunConfig config = without_dropout(model, 6);
  const Plan plan = plan_of(model, plan_name);
  const Network network = network_of(config.model);
  const TrainingSettings settings = training_settings(config);
  ProgramSet programs(network, settings, plan, training_graph(config), {}, {});
  programs.initialize();
  std::map<Purpose, Exchanges> counts;
  const AccumulationPrograms parts(programs, [&](Purpose part, const Graph&, const Compiled& made) {
    for (const Task& task : made.tasks.tasks)
      for (size_t k = 0; k < task.parts.size(); ++k) {
        const Exchange& exchange = task.parts[k].exchange;
        const Register& source = made.tasks.registers[task.inputs[k]];
        int64_t received = 0;
        for (Rank rank : plan.ranks())
          received += received_elements(source.type->shape, {exchange}, rank);
        if (received == 0 || source.name == "loss" || source.name.text().starts_with("loss."))
          continue;  // the loss is returned
        ++(exchange.from.partial.size() > exchange.to.partial.size() ? counts[part].sums
                                                                     : counts[part].moves);
      }
  });
  return counts;
}

TEST(GradientAccumulation, PlainDataParallelAccumulatesWithoutExchangeAndSumsAllGradientsInOne) {
  for (const char* model : {"gpt", "mlp"}) {
    auto counts = exchanges_of_parts(model, "dp4");
    EXPECT_EQ(counts[Purpose::kAccumulate].sums + counts[Purpose::kAccumulate].moves, 0) << model;
    EXPECT_EQ(counts[Purpose::kReduceGradients].sums, 1) << model;  // one reduce-scatter ...
    EXPECT_EQ(counts[Purpose::kReduceGradients].moves, 1)
        << model;  // ... and its all-gather: one all-reduce
    EXPECT_EQ(counts[Purpose::kApplyGradients].sums + counts[Purpose::kApplyGradients].moves, 0)
        << model;
  }
}

TEST(GradientAccumulation, OneRankExchangesNothing) {
  for (const auto& [part, count] : exchanges_of_parts("gpt", "serial"))
    EXPECT_EQ(count.sums + count.moves, 0);
}

TEST(GradientAccumulation, GradientsThatTheModelParallelAxisDividesStayApart) {
  auto counts = exchanges_of_parts("gpt", "dp2-tp2");
  // tp divides: the weights of two embeddings and of the head, and of each block the weights and
  // biases of q, k and v, the out weight, up and its bias, and down. The others are joined.
  const int divided = 2 + 2 * (6 + 1 + 2 + 1);
  EXPECT_EQ(counts[Purpose::kReduceGradients].sums, 1 + divided);
}

TEST(GradientAccumulation, FusibleAreAddendsOverTheSameAxesOnOneMesh) {
  const auto mesh = std::make_shared<const Mesh>(parse_mesh("dp2-tp2"));
  const auto gradient = [&](const std::string& name, const std::string& text,
                            const std::string& on = "all") {
    const DistType type = parse_dist_type(text, mesh);
    return MadeGradient{name, name + ".grad", type.type, type.attr, on, on};
  };
  const auto groups = fusible({gradient("a", "f32[4, 2] {partial sum: dp}"),
                               gradient("b", "f32[8@tp] {partial sum: dp}"),
                               gradient("c", "f32[3] {partial sum: dp}"), gradient("d", "f32[3]"),
                               gradient("e", "f32[3] {partial sum: dp, tp}"),
                               gradient("f", "f32[3] {partial sum: dp}", "last")});
  std::vector<std::vector<std::string>> names;
  for (const auto& group : groups) {
    names.emplace_back();
    for (const MadeGradient& member : group) names.back().push_back(member.parameter);
  }
  EXPECT_EQ(names, (std::vector<std::vector<std::string>>{{"a", "c"}, {"e"}, {"f"}}));
}

TEST(GradientAccumulation, TheExchangeMayBeCalledBetweenBatchesTwiceOrLeftToTheEnd) {
  const auto data = small_text();
  const auto batches = gradient_accumulation_batches_of(*data, 6, 2);
  const RunConfig config = without_dropout("gpt", 6);
  Engine left(config, plan_of("gpt", "dp2"), data), called(config, plan_of("gpt", "dp2"), data);
  left.accumulate(batches[0]);
  left.accumulate(batches[1]);
  const StepResult a = left.apply_gradients();
  called.accumulate(batches[0]);
  called.all_reduce_gradients();
  called.all_reduce_gradients();  // nothing new
  called.accumulate(batches[1]);
  called.all_reduce_gradients();
  const StepResult b = called.apply_gradients();
  // Four partial values, (0 + 1) + (2 + 3) against (0 + 2) + (1 + 3).
  EXPECT_NEAR(a.grad_norm, b.grad_norm, 4 * 0x1p-24 * a.grad_norm);
  EXPECT_EQ(a.loss, b.loss);
}

TEST(GradientAccumulation, AfterAnUpdateGradientsBeginAtZero) {
  const auto data = small_text();
  const auto batches = gradient_accumulation_batches_of(*data, 6, 1);
  RunConfig config = without_dropout("gpt", 6);
  config.optimizer.schedule.peak = 0;  // parameters stay, so that every step has the same gradient
  Engine engine(config, plan_of("gpt", "dp2"), data);
  engine.accumulate(batches[0]);
  const double first = engine.apply_gradients().grad_norm;
  engine.accumulate(batches[0]);
  EXPECT_EQ(engine.apply_gradients().grad_norm, first);
  EXPECT_GT(first, 0);
}

TEST(GradientAccumulation, WholeStepsAndStepsInPartsMayAlternate) {
  const RunConfig config = without_dropout("gpt", 6);
  Engine whole(config, plan_of("gpt", "dp2"), small_text()),
      mixed(config, plan_of("gpt", "dp2"), small_text());
  for (int i = 0; i < 4; ++i) {
    const double expected = whole.step().loss;
    if (i % 2 == 0) {
      EXPECT_EQ(mixed.step().loss, expected);
    } else {
      mixed.accumulate(mixed.next_batch());
      EXPECT_EQ(mixed.apply_gradients().loss, expected);
    }
  }
  EXPECT_TRUE(same_bits(whole.variables(), mixed.variables()));
}

TEST(GradientAccumulation, TwoBatchesOfAStepDropOtherElements) {
  RunConfig config = tiny_gpt();
  config.model.dropout = 0.5;
  config.optimizer.schedule.peak = 0;
  const auto data = small_text();
  const auto batches = gradient_accumulation_batches_of(*data, config.train.batch, 1);
  Engine engine(config, serial_plan(), data);
  EXPECT_NE(engine.accumulate(batches[0]), engine.accumulate(batches[0]));
}

TEST(GradientAccumulation, WithoutAccumulatedGradientsThereIsNothingToApply) {
  Engine engine(tiny_mlp(), serial_plan(), small_text());
  EXPECT_THROW(engine.apply_gradients(), UserError);
  EXPECT_THROW(engine.all_reduce_gradients(), UserError);
  engine.accumulate(engine.next_batch());
  engine.apply_gradients();
  EXPECT_THROW(engine.apply_gradients(), UserError);
}

/// Counts the events that only manual gradient accumulation has.
class CountParts : public Callback {
 public:
  void on_substep_end(const TrainingState&, TrainingControl&) override { ++substeps; }
  void on_pre_optimizer_step(const TrainingState& state, TrainingControl&) override {
    before.push_back(state.step);
  }
  void on_optimizer_step(const TrainingState&, TrainingControl&) override { ++updates; }
  int substeps = 0, updates = 0;
  std::vector<int64_t> before;
};

TEST(EngineFit, StepsInPartsHaveSubstepAndOptimizerEventsAndCompiledStepsHaveNone) {
  const RunConfig config = without_dropout("gpt", 6);
  Engine engine(config, plan_of("gpt", "dp2"), small_text());
  CountParts parts;
  const FitResult result = fit(engine, {.steps = 2, .callbacks = {&parts}, .accumulate = 3});
  EXPECT_EQ(parts.substeps, 6);
  EXPECT_EQ(parts.updates, 2);
  EXPECT_EQ(parts.before, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(result.steps[1].tokens, 3 * 6 * 8);
  CountParts none;
  fit(engine, {.steps = 2, .callbacks = {&none}});
  EXPECT_EQ(none.substeps + none.updates, 0);
}

}  // namespace
}  // namespace tessera
