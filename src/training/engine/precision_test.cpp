// Whole runs in 16 bits: under every kind of plan they compute what the serial program of the same
// precision computes, with half of the bytes, and f16 survives overflows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "kernels/element_types.h"
#include "planner/presets/presets.h"
#include "simulator/step/rank_traffic.h"
#include "training/engine/testing/runs.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

RunConfig run_in(DType dtype, const std::string& model, double loss_scale = 256) {
  RunConfig config = tiny_run(model);
  config.train.precision.dtype = dtype;
  config.train.precision.scale.initial = loss_scale;
  return config;
}

Plan precision_preset(const RunConfig& config, const std::string& text) {
  return preset_plan(parse_preset(text), training_graph(config));
}

RunConfig with_gradients_in_16_bits(RunConfig config) {
  config.train.precision.gradients = DType::kBF16;
  return config;
}

// The perturbed serial run, from which the tolerance of losses follows, changes its state in each
// step as rounding changed it in the first one. Second moments that become smaller than the change
// must not become negative, of which the optimizer takes roots.
TEST(Narrow, LossesOfTenStepsHaveTolerancesFromThePerturbationOfTheFirst) {
  RunConfig config = run_in(DType::kBF16, "gpt");
  config.model.width = 64;
  config.train.batch = 32;
  const VerifyReport report = verify_plan(config, precision_preset(config, "dp=2"), small_text(),
                                          {.steps = 10, .tensor_steps = 1});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "");
  ASSERT_EQ(report.loss_tolerances.size(), 10);
  // A few roundings to 8 bits in each of ten steps: far less than a tenth of a loss of 4.
  for (const double tolerance : report.loss_tolerances) EXPECT_LT(tolerance, 0.4);
}

// ---- bytes ----

/// The bytes of rank 0.
struct Counted {
  std::map<std::string, int64_t> registers;  // by name
};

Counted counted(const TaskGraph& tasks) {
  Counted all;
  for (const Register& reg : tasks.registers)
    all.registers[reg.name.text()] =
        byte_size(local_type(reg, reg.attr.mesh->coordinate_at(0))).value();
  return all;
}

TEST(Narrow, HalvesTheRegistersOfEveryValueThatItComputesIn16Bits) {
  const RunConfig narrow = run_in(DType::kBF16, "gpt"), wide = run_in(DType::kF32, "gpt");
  const TaskGraph narrow_tasks =
      compile(training_graph(narrow), precision_preset(narrow, "dp=2,tp=2")).tasks;
  const TaskGraph wide_tasks =
      compile(training_graph(wide), precision_preset(wide, "dp=2,tp=2")).tasks;
  const Counted before = counted(wide_tasks);
  int64_t halved = 0;
  for (const Register& reg : narrow_tasks.registers) {
    const auto known = before.registers.find(reg.name.text());
    if (known == before.registers.end() || !is_narrow_float(reg.type->dtype)) continue;
    EXPECT_EQ(2 * byte_size(local_type(reg, reg.attr.mesh->coordinate_at(0))).value(),
              known->second)
        << reg.name.text();
    ++halved;
  }
  EXPECT_GT(halved, 50);
}

/// By name: the bytes of what rank 0 gets in the exchanges of a step over the axis tp.
std::map<std::string, int64_t> exchanged_over_tp(const RunConfig& config) {
  const TaskGraph tasks = compile(training_graph(config), precision_preset(config, "tp=4")).tasks;
  std::map<std::string, int64_t> bytes;
  for (const Task& task : tasks.tasks)
    if (task.kind == Task::Kind::kExchange)
      for (const RegisterIndex output : task.outputs) {
        const Register& reg = tasks.registers[output];
        bytes[reg.name.text()] =
            byte_size(local_type(reg, reg.attr.mesh->coordinate_at(0))).value();
      }
  return bytes;
}

TEST(Narrow, HalvesTheMessagesOfActivations) {
  const auto wide = exchanged_over_tp(run_in(DType::kF32, "gpt"));
  const auto narrow = exchanged_over_tp(run_in(DType::kBF16, "gpt"));
  int64_t halved = 0;
  for (const char* name : {"attn.out.dot ", "ffn.down.dot ", "ffn.up.dot.grad.a "})
    for (const auto& [reg, bytes] : narrow) {
      if (reg.find(name) == std::string::npos) continue;
      ASSERT_TRUE(wide.contains(reg)) << reg;
      EXPECT_EQ(2 * bytes, wide.at(reg)) << reg;
      ++halved;
    }
  EXPECT_GE(halved, 6) << "three exchanges in each of two layers";
}

/// The bytes that a rank sends over the axis dp in a step, in the mean of four ranks.
double sent_over_dp(const RunConfig& config, const std::string& plan) {
  double bytes = 0;
  for (const PairTraffic& pair :
       rank_traffic(compile(training_graph(config), precision_preset(config, plan)).tasks))
    if (pair.axes == "dp") bytes += static_cast<double>(pair.bytes.value());
  return bytes / 4;
}

// Of E elements of parameters that products read, a reduce-scatter over 4 ranks sends 3/4 E, and
// the all-gather of an all-reduce as many: 2 bytes less of each. Zero 1 gathers parameters instead,
// in f32; zero 2 scatters the gradients of each micro-batch.
TEST(Narrow, GradientsOf16BitsHalveTheMessagesOfTheirSums) {
  RunConfig config = run_in(DType::kBF16, "gpt");
  config.model.width = 512;  // short messages are sent in one shot
  config.train.batch = 16;
  const Graph graph = training_graph(config);
  double elements = 0;
  for (const Variable& variable : graph.variables())
    if (std::ranges::any_of(graph.value(variable.value).users,
                            [&](OpId user) { return graph.op(user).kind == "cast"; }))
      elements += static_cast<double>(element_count(graph.type(variable.value).shape));
  for (const auto& [plan, times] :
       {std::pair("dp=4", 2), std::pair("dp=4,zero=1", 1), std::pair("dp=4,micro_batches=4", 2),
        std::pair("dp=4,zero=2,micro_batches=4", 4)}) {
    const double saved =
        sent_over_dp(config, plan) - sent_over_dp(with_gradients_in_16_bits(config), plan);
    const double expected = times * 2 * elements * 3 / 4;
    EXPECT_NEAR(saved, expected, 0.02 * expected) << plan;
  }
}

TEST(Narrow, GradientsOf16BitsAreAddedUpOverMicroBatchesInF32) {
  const RunConfig config = with_gradients_in_16_bits(run_in(DType::kBF16, "gpt"));
  for (const char* plan : {"dp=2,micro_batches=4", "dp=2,zero=2,micro_batches=4"}) {
    int sums = 0;
    const TaskGraph tasks = compile(training_graph(config), precision_preset(config, plan)).tasks;
    for (const Task& task : tasks.tasks)
      for (const KernelStep& step : task.steps) {
        if (step.purpose != KernelPurpose::kAccumulate) continue;
        EXPECT_EQ(tasks.registers[step.outputs.front()].type->dtype, DType::kF32) << step.op;
        ++sums;
      }
    EXPECT_GE(sums, 13) << "of the weights of products alone";
  }
}

TEST(Narrow, LeavesVariablesAsTheyAre) {
  const Graph narrow = training_graph(run_in(DType::kBF16, "gpt"));
  const Graph wide = training_graph(run_in(DType::kF32, "gpt"));
  ASSERT_EQ(narrow.variables().size(), wide.variables().size());
  for (size_t i = 0; i < wide.variables().size(); ++i)
    EXPECT_EQ(narrow.value(narrow.variables()[i].value).type,
              wide.value(wide.variables()[i].value).type);
}

// ---- the scale of the loss ----

/// Fills the first element of a gradient of f16 on a rank with an infinity.
class Overflow {
 public:
  Overflow(const TaskGraph& tasks, Rank rank) : rank_(rank) {
    for (RegisterIndex reg{0}; reg.value() < std::ssize(tasks.registers); ++reg) {
      const Register& candidate = tasks.registers[reg];
      const auto ranks = candidate.attr.mesh->ranks();
      if (candidate.type->dtype == DType::kF16 &&
          candidate.name.text().find(".dot.grad.a") != std::string::npos &&
          std::ranges::find(ranks, rank) != ranks.end())
        register_ = reg;
    }
    ensure(register_.value() >= 0, "the rank has a gradient in f16");
  }

  Observer observer() const {
    return [this](Rank rank, RegisterIndex reg, const Coordinate&, const std::byte* data) {
      if (rank != rank_ || reg != register_) return;
      const uint16_t infinity = 0x7c00;
      std::memcpy(const_cast<std::byte*>(data), &infinity, sizeof infinity);
    };
  }

 private:
  Rank rank_;
  RegisterIndex register_{-1};
};

bool are_equal(const TensorMap& a, const TensorMap& b) {
  return std::ranges::all_of(a, [&](const auto& entry) {
    const auto& [name, tensor] = entry;
    return name.starts_with("loss_scale") ||
           std::memcmp(tensor.data(), b.at(name).data(),
                       static_cast<size_t>(byte_size(tensor.type()).value())) == 0;
  });
}

class AnOverflow : public testing::TestWithParam<std::pair<const char*, Rank>> {};

TEST_P(AnOverflow, OfOneRankSkipsTheStepOnAllRanks) {
  const auto& [plan, rank] = GetParam();
  const RunConfig config = run_in(DType::kF16, "gpt");
  Engine engine(config, precision_preset(config, plan), small_text());
  EXPECT_FALSE(engine.step().skipped);
  const TensorMap before = engine.variables();
  const Overflow overflow(engine.compiled().tasks, rank);
  const Observer observer = overflow.observer();
  const StepResult skipped = engine.step(&observer);
  EXPECT_TRUE(skipped.skipped);
  EXPECT_EQ(skipped.loss_scale, 256);
  EXPECT_TRUE(are_equal(before, engine.variables()));
  const StepResult next = engine.step();
  EXPECT_FALSE(next.skipped);
  EXPECT_EQ(next.loss_scale, 128);
  EXPECT_FALSE(are_equal(before, engine.variables()));
}

INSTANTIATE_TEST_SUITE_P(Plans, AnOverflow,
                         testing::Values(std::pair("dp=2", 0), std::pair("dp=2", 1),
                                         std::pair("tp=2", 1), std::pair("pp=2", 0),
                                         std::pair("pp=2", 1),
                                         std::pair("pp=2,dp=2,micro_batches=2", 3)));

TEST(LossScale, ThatIsTooLargeIsHalvedUntilTheGradientsFit) {
  const RunConfig config = run_in(DType::kF16, "gpt", 0x1p24);
  std::vector<std::vector<bool>> skipped;
  for (const char* plan : {"dp=1", "dp=2", "pp=2,dp=2"}) {
    Engine engine(config, precision_preset(config, plan), small_text());
    skipped.emplace_back();
    for (int step = 0; step < 12; ++step) skipped.back().push_back(engine.step().skipped);
  }
  EXPECT_TRUE(skipped[0].front());
  EXPECT_FALSE(skipped[0].back());
  EXPECT_EQ(skipped[1], skipped[0]);
  EXPECT_EQ(skipped[2], skipped[0]);
}

TEST(LossScale, IsDoubledAfterStepsWithoutAnOverflow) {
  RunConfig config = run_in(DType::kF16, "mlp", 64);
  config.train.precision.scale.steps_to_double = 2;
  Engine engine(config, precision_preset(config, "dp=2"), small_text());
  std::vector<double> scales;
  for (int step = 0; step < 6; ++step) scales.push_back(engine.step().loss_scale);
  EXPECT_THAT(scales, testing::ElementsAre(64, 64, 128, 128, 256, 256));
}

TEST(LossScale, DoesNotChangeTheUpdates) {
  // Powers of two change no digit of a number that neither overflows nor vanishes.
  const auto losses = [](double scale) {
    const RunConfig config = run_in(DType::kF16, "mlp", scale);
    Engine engine(config, precision_preset(config, "dp=1"), small_text());
    std::vector<double> result;
    for (int step = 0; step < 3; ++step) result.push_back(engine.step().loss);
    return result;
  };
  const std::vector<double> small = losses(1024), large = losses(2048);
  for (size_t step = 0; step < small.size(); ++step)
    EXPECT_NEAR(small[step], large[step], 1e-3 * small[step]);
}

}  // namespace
}  // namespace tessera
