// A verification of a plan that decides within rounding of a threshold: which decisions it accepts,
// and which faults of decisions it finds.
#include "training/verify/internal/decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ir/ops/compositions.h"
#include "runtime/comm/network.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"
#include "training/engine/engine.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

using testing::Contains;

constexpr int64_t kWidth = 4, kSamples = 8;

/// x is the sum of the data and a variable of zeros. Its largest number is 1, so its tolerance is
/// four times a rounding of 1, 2^-24, and what the perturbation does to it, which is half to all of
/// the same: at least 6 x 2^-24 = 3.6e-7. The perturbation moves no number by more than a rounding
/// of its own, so it never moves 1e-7 below 0, or 1 above 1 + 2^-23.
constexpr float kTiny = 1e-7f, kAboveOne = 1 + 0x1p-23f, kBelowOne = 1 - 0x1p-24f;

/// Even rows are {tiny, 0, 1, 0.5 or -0.5 in turn}, odd ones {-0.25, 1, above one, -tiny}.
class Rows : public Dataset {
 public:
  Rows() : Dataset({{"data", {DType::kF32, {kWidth}}}, {"number", {DType::kI32, {kWidth}}}}) {}
  int64_t samples() const override { return kSamples; }
  uint64_t fingerprint() const override { return 0xdec1de; }
  void write(int64_t sample, int64_t row, Batch& batch) const override {
    const std::vector<float> even{kTiny, 0, 1, sample % 4 == 0 ? 0.5f : -0.5f},
        odd{-0.25f, 1, kAboveOne, -kTiny};
    std::ranges::copy(sample % 2 == 0 ? even : odd, batch.row<float>("data", row).begin());
    std::ranges::copy(std::vector<int32_t>{0, 1, 2, static_cast<int32_t>(sample)},
                      batch.row<int32_t>("number", row).begin());
  }
};

/// A loss of some decision on x = data + shift, whose gradient moves the variable `shift`.
using Decide = std::function<ValueId(Forward&, ValueId x)>;

Network deciding_network(const Decide& decide) {
  return {.name = "the network of decisions", .forward = [=](Forward& forward) {
            Builder& b = forward.builder();
            const ValueId data = forward.input("data", {DType::kF32, {kWidth}});
            const ValueId shift =
                b.variable("shift", {DType::kF32, {kWidth}}, Initializer::constant(0));
            const ValueId x = b.add(data, b.broadcast_leading(shift, b.shape(data), "shifts"), "x");
            const ValueId decided = decide(forward, x);
            std::vector<int64_t> dims;
            for (int d = 0; d < b.shape(decided).size(); ++d) dims.push_back(d);
            forward.output("loss", b.reduce_sum(decided, dims, "sum"));
          }};
}

ValueId rectified(Forward& forward, ValueId x) {
  return forward.builder().max_scalar(x, 0, "rectified");
}
ValueId clamped(Forward& forward, ValueId x) {
  return clamp(forward.builder(), x, 0, 2, "clamped");
}
ValueId absolute(Forward& forward, ValueId x) {
  return forward.builder().unary("abs", x, "absolute");
}
ValueId pooled(Forward& forward, ValueId x) {
  Builder& b = forward.builder();
  const ValueId image = b.reshape(x, {forward.rows(), 1, kWidth}, "image");
  const ValueId largest = b.op1("max_pool", {image},
                                {{"window", std::vector<int64_t>{2}},
                                 {"stride", std::vector<int64_t>{1}},
                                 {"low", std::vector<int64_t>{0}},
                                 {"high", std::vector<int64_t>{0}}},
                                "pooled");
  // Unequal weights: the first and the second window go to different elements.
  return b.mul(largest, b.cast(b.iota({DType::kI32, b.shape(largest)}, 2), DType::kF32),
               "weighted");
}
ValueId routed(Forward& forward, ValueId x) {
  Builder& b = forward.builder();
  const Ordered first = top_k(b, x, 1, 1, "route");
  const ValueId table = b.variable("table", {DType::kF32, {kWidth}}, Initializer::normal(0, 1));
  const ValueId expert = b.gather(table, b.reshape(first.indices, {forward.rows()}), "expert");
  return b.mul(expert, b.reshape(first.values, {forward.rows()}), "weighed");
}

TrainingSettings deciding_settings() {
  TrainingSettings settings;
  settings.train = {.batch = kSamples, .steps = 2, .seed = 3};
  settings.order.shuffle = Shuffle::kNone;
  settings.optimizer.kind = OptimizerKind::kSgd;
  settings.optimizer.schedule.peak = 0.01;
  return settings;
}

std::shared_ptr<const RunData> rows_of_decisions() {
  return std::make_shared<const RunData>(RunData{.train = std::make_shared<const Rows>(),
                                                 .held_out = std::make_shared<const Rows>(),
                                                 .unit = "row"});
}

Plan deciding_plan(int micro_batches = 1) {
  Plan plan;
  plan.name = "dp2";
  plan.micro_batches = micro_batches;
  plan.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp2")));
  plan.marks.push_back(shard_tensor("data", "P(\"dp\")"));
  return plan;
}

/// Changes elements of a value, in each of its registers, after ranks filled them.
template <typename T>
Observer changing(const TaskGraph& tasks, const std::string& value,
                  const std::function<void(std::span<T> elements)>& change) {
  return [&tasks, value, change](Rank, RegisterIndex index, const Coordinate& coordinate,
                                 const std::byte* data) {
    const Register& reg = tasks.registers[index];
    if (reg.name.text().substr(0, reg.name.text().find(' ')) != value) return;
    const auto count = static_cast<size_t>(element_count(local_type(reg, coordinate).shape));
    change({reinterpret_cast<T*>(const_cast<std::byte*>(data)), count});
  };
}

Observer replacing(const TaskGraph& tasks, const std::string& value, float from, float to) {
  return changing<float>(
      tasks, value, [=](std::span<float> elements) { std::ranges::replace(elements, from, to); });
}

/// A verification of the first step, with a change of what the plan computes.
class Decided {
 public:
  explicit Decided(const Decide& decide, int micro_batches = 1)
      : network_(deciding_network(decide)),
        plan_(deciding_plan(micro_batches)),
        engine_(network_, deciding_settings(), plan_, rows_of_decisions()) {}

  const TaskGraph& tasks() const { return engine_.compiled().tasks; }
  VerifyReport verified(const Observer& change, const RuntimeOptions& runtime = {}) const {
    return verify_plan(
        network_, deciding_settings(), plan_, rows_of_decisions(),
        {.steps = 1, .runtime = runtime, .gathered = Bytes(64), .before_capture = change});
  }
  std::string first_different(const Observer& change) const {
    const VerifyReport report = verified(change);
    return report.first_difference ? report.first_difference->op : "";
  }

 private:
  Network network_;
  Plan plan_;
  Engine engine_;
};

// ---- decisions within rounding of their threshold ----

TEST(Decisions, OfARectifierWithinRoundingOfZeroIsThatOfThePlan) {
  const Decided run(rectified);
  EXPECT_EQ(run.first_different({}), "");
  EXPECT_EQ(run.first_different(replacing(run.tasks(), "x", kTiny, -kTiny)), "");
  EXPECT_EQ(run.first_different(replacing(run.tasks(), "x", -kTiny, kTiny)), "");
}

TEST(Decisions, OfAClampWithinRoundingOfItsEndIsThatOfThePlan) {
  const Decided run(clamped);
  EXPECT_EQ(run.first_different({}), "");
  EXPECT_EQ(run.first_different(replacing(run.tasks(), "x", kTiny, -kTiny)), "");
}

TEST(Decisions, OfASignWithinRoundingOfZeroIsThatOfThePlan) {
  const Decided run(absolute);
  EXPECT_EQ(run.first_different({}), "");
  EXPECT_EQ(run.first_different(replacing(run.tasks(), "x", kTiny, -kTiny)), "");
}

TEST(Decisions, OfAPoolingBetweenElementsWithinRoundingIsThatOfThePlan) {
  const Decided run(pooled);
  EXPECT_EQ(run.first_different({}), "");
  EXPECT_EQ(run.first_different(replacing(run.tasks(), "x", kAboveOne, kBelowOne)), "");
}

TEST(Decisions, OfARouteBetweenElementsWithinRoundingIsThatOfThePlan) {
  const Decided run(routed);
  EXPECT_EQ(run.first_different({}), "");
  EXPECT_EQ(run.first_different(replacing(run.tasks(), "x", kAboveOne, kBelowOne)), "");
}

TEST(Decisions, OfEveryMicroBatchAreThoseOfThePlan) {
  const Decided run(rectified, 2);
  EXPECT_EQ(run.first_different({}), "");
  EXPECT_EQ(run.first_different(replacing(run.tasks(), "x", kTiny, -kTiny)), "");
}

TEST(Decisions, InSeveralProcessesAreGatheredByTheLeader) {
  const Decided run(rectified);
  testing_transport::on_processes(make_local_transports(2), [&](std::unique_ptr<Transport> mine) {
    const auto network = std::make_shared<ProcessNetwork>(std::move(mine));
    const VerifyReport report =
        run.verified(replacing(run.tasks(), "x", kTiny, -kTiny), {.network = network});
    EXPECT_TRUE(report.ok);
  });
}

// ---- faults ----

/// The compare of the gradient of the rectifier: x >= 0.
constexpr const char* kMask = "rectified.grad.compare";

TEST(FaultsOfDecisions, AMaskOfMoreThanInsteadOfAtLeastIsFoundAtExactlyZero) {
  const Decided run(rectified);
  // Element 1 of even rows is exactly 0.
  const Observer exceeds =
      changing<uint8_t>(run.tasks(), kMask, [](std::span<uint8_t> mask) { mask[1] = 0; });
  EXPECT_EQ(run.first_different(exceeds), kMask);
}

TEST(FaultsOfDecisions, AMaskThatDoesNotFollowFromItsOperandIsFoundWithinRounding) {
  const Decided run(rectified);
  // Element 0 of even rows is tiny: either decision would be right for an operand of the reference,
  // but not for the operand that the plan has.
  const Observer flipped =
      changing<uint8_t>(run.tasks(), kMask, [](std::span<uint8_t> mask) { mask[0] = 0; });
  EXPECT_EQ(run.first_different(flipped), kMask);
}

TEST(FaultsOfDecisions, AMaskOfTheMicroBatchBeforeIsFound) {
  const Decided run(rectified, 4);
  std::map<Rank, std::vector<uint8_t>> before;
  std::mutex mutex;
  const Observer late = [&](Rank rank, RegisterIndex index, const Coordinate& coordinate,
                            const std::byte* data) {
    const Register& reg = run.tasks().registers[index];
    if (!reg.name.text().starts_with(kMask)) return;
    const auto count = static_cast<size_t>(element_count(local_type(reg, coordinate).shape));
    auto* mask = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(data));
    const std::lock_guard lock(mutex);
    const std::vector<uint8_t> mine(mask, mask + count);
    if (before.contains(rank)) std::ranges::copy(before[rank], mask);
    before[rank] = mine;
  };
  EXPECT_EQ(run.first_different(late), kMask);
}

TEST(FaultsOfDecisions, AMaskOfAnotherRankIsFound) {
  const Decided run(rectified);
  // Ranks begin with an even row; their rows in reverse begin with an odd one.
  const Observer reversed = changing<uint8_t>(
      run.tasks(), kMask, [](std::span<uint8_t> mask) { std::ranges::reverse(mask); });
  EXPECT_EQ(run.first_different(reversed), kMask);
}

TEST(FaultsOfDecisions, AnOperandBeyondItsToleranceIsFoundItself) {
  const Decided run(rectified);
  EXPECT_EQ(run.first_different(replacing(run.tasks(), "x", 0.5f, -0.5f)), "x");
  EXPECT_EQ(run.first_different(replacing(run.tasks(), "x", kTiny, -1e-5f)), "x");
}

TEST(FaultsOfDecisions, AnOperandThatIsHugeIsFoundItselfAndNotCalledADivergence) {
  const Decided run(absolute);
  EXPECT_EQ(run.first_different(replacing(run.tasks(), "x", 0.5f, -1e37f)), "x");
}

TEST(FaultsOfDecisions, AMaskOfAnotherThresholdIsFound) {
  const Decided run(rectified);
  // x >= 0.75 for row 0, {1e-7, 0, 1, 0.5}.
  const Observer other = changing<uint8_t>(run.tasks(), kMask, [](std::span<uint8_t> mask) {
    std::ranges::copy(std::vector<uint8_t>{0, 0, 1, 0}, mask.begin());
  });
  EXPECT_EQ(run.first_different(other), kMask);
}

TEST(FaultsOfDecisions, TheIndexOfARouteThatDoesNotFollowFromItsOperandIsFound) {
  const Decided run(routed);
  const Observer other = changing<int32_t>(
      run.tasks(), "route:1", [](std::span<int32_t> index) { index[0] = (index[0] + 1) % kWidth; });
  EXPECT_EQ(run.first_different(other), "route");
}

TEST(FaultsOfDecisions, OnWholeNumbersThereIsNoFreedom) {
  const Decide even = [](Forward& forward, ValueId x) {
    Builder& b = forward.builder();
    const ValueId number = forward.input("number", {DType::kI32, {kWidth}});
    const ValueId one = b.constant(b.type(number), 1, "one");
    return b.mul(x, b.cast(b.compare("gt", number, one, "exceeds"), DType::kF32), "chosen");
  };
  const Decided run(even);
  EXPECT_EQ(run.first_different({}), "");
  const Observer at_least =
      changing<uint8_t>(run.tasks(), "exceeds", [](std::span<uint8_t> mask) { mask[1] = 1; });
  EXPECT_EQ(run.first_different(at_least), "exceeds");
}

// ---- which operands are read ----

TEST(DecisionOperands, AreThoseOfOpsWhoseResultsJump) {
  Engine engine(deciding_network(rectified), deciding_settings(), deciding_plan(),
                rows_of_decisions());
  DecisionOperands operands(engine.graph(), engine.compiled());
  const ValueId x = *engine.graph().find_value("x");
  const Op& mask = engine.graph().op(*engine.graph().find_op(kMask));
  EXPECT_THAT(operands.operands(), Contains(x));
  Capture capture(engine.compiled().tasks);
  const Observer observer = capture.observer();
  engine.step(&observer);
  operands.clear();
  EXPECT_FALSE(operands.decides(mask, mask.outputs[0]));
  for (const ValueId operand : operands.operands()) operands.read(operand, capture);
  EXPECT_TRUE(operands.decides(mask, mask.outputs[0]));
  EXPECT_EQ(operands.values().at("x").values.size(), size_t{kSamples * kWidth});

  operands.drop_from(x);
  EXPECT_FALSE(operands.decides(mask, mask.outputs[0]));
  operands.read(x, capture);  // and stays unknown in this step
  EXPECT_FALSE(operands.decides(mask, mask.outputs[0]));
  operands.clear();
  for (const ValueId operand : operands.operands()) operands.read(operand, capture);
  EXPECT_TRUE(operands.decides(mask, mask.outputs[0]));
}

}  // namespace
}  // namespace tessera
