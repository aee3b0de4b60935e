// A network that is no family, and its data: two points in, their distance out, with a weight for
// each pair. For tests.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "ir/models/layers.h"
#include "training/engine/engine.h"

namespace tessera {

inline constexpr int64_t kPointDims = 6;

/// Pairs of points: left and right f32[6], their distance f32[], and a weight f32[], which is 0 for
/// each fifth pair.
class PairsOfPoints : public Dataset {
 public:
  explicit PairsOfPoints(int64_t samples)
      : Dataset({{"left", {DType::kF32, {kPointDims}}},
                 {"right", {DType::kF32, {kPointDims}}},
                 {"distance", {DType::kF32, {}}},
                 {"weight", {DType::kF32, {}}}}),
        samples_(samples) {}
  int64_t samples() const override { return samples_; }
  uint64_t fingerprint() const override { return 0x9a175 + static_cast<uint64_t>(samples_); }
  void write(int64_t sample, int64_t row, Batch& batch) const override {
    const RandomStream stream(random_key(5, "points"), static_cast<uint64_t>(sample));
    const auto left = batch.row<float>("left", row), right = batch.row<float>("right", row);
    float square = 0;
    for (size_t i = 0; i < left.size(); ++i) {
      left[i] = stream.uniform(i);
      right[i] = stream.uniform(i + left.size());
      square += (left[i] - right[i]) * (left[i] - right[i]);
    }
    batch.row<float>("distance", row)[0] = std::sqrt(square);
    batch.row<float>("weight", row)[0] = sample % 5 == 0 ? 0 : 1;
  }

 private:
  int64_t samples_;
};

inline void write_distance(Forward& forward, double dropout_rate = 0.1) {
  Builder& b = forward.builder();
  LayerContext layers = forward.layers();
  const ValueId left = forward.input("left", {DType::kF32, {kPointDims}}),
                right = forward.input("right", {DType::kF32, {kPointDims}});
  const ValueId apart = b.unary("square", b.sub(left, right, "apart"), "squares");
  const ValueId wide = relu(layers, linear(layers, apart, 16, "first", 0.5));
  const ValueId dropped = dropout(layers, wide, dropout_rate, "first.dropout");
  const ValueId predicted =
      b.reshape(linear(layers, dropped, 1, "second", 0.25), {forward.rows()}, "second.predicted");
  forward.output("predicted", predicted);
  if (!forward.has_loss()) return;
  const ValueId distance = forward.input("distance", {DType::kF32, {}}),
                weight = forward.input("weight", {DType::kF32, {}});
  const ValueId error = b.sub(predicted, distance, "second.error");
  const ValueId squares = b.mul(weight, b.unary("square", error), "second.squares");
  const ValueId count = b.reduce_sum(weight, {0}, "second.count");
  forward.output("loss", b.div(b.reduce_sum(squares, {0}, "second.sum"),
                               b.max_scalar(count, 1, "second.divisor"), "second.loss"));
  forward.output("count", count);
  if (forward.purpose() != ForwardPurpose::kEvaluation) return;
  const ValueId errors = b.mul(weight, b.unary("abs", error), "second.errors");
  forward.output("error", b.reduce_sum(errors, {0}, "second.error_sum"));
}

/// Layers `first` and `second`; biases learn at half the rate, and the weight of `second` does not
/// decay.
inline Network distance_network() {
  return {.name = "the network of distances",
          .forward = [](Forward& forward) { write_distance(forward); },
          .count = "count",
          .metrics = {{"absolute_error", "error", "count", "metres"}},
          .groups = {{.pattern = "*.bias", .rate = 0.5},
                     {.pattern = "second.weight", .weight_decay = 0.0}}};
}

inline TrainingSettings distance_settings() {
  TrainingSettings settings;
  settings.train = {.batch = 12, .steps = 6, .seed = 3};
  settings.optimizer.schedule.peak = 0.02;
  settings.optimizer.weight_decay = 0.01;
  settings.optimizer.clip_norm = 1;
  return settings;
}

/// A fault of one rank: it adds 1 to the first element of a register of f32 after it was filled.
inline Observer fault_on(Rank faulty, const std::string& name, const TaskGraph& tasks) {
  RegisterIndex wanted(-1);
  for (const RegisterIndex index : tasks.registers.indices())
    if (tasks.registers[index].name == name) wanted = index;
  ensure(wanted.value() >= 0, "there is a register " + name);
  return [=](Rank rank, RegisterIndex reg, const Coordinate&, const std::byte* data) {
    if (rank != faulty || reg != wanted) return;
    auto* first = const_cast<std::byte*>(data);
    float value = 0;
    std::memcpy(&value, first, sizeof value);
    value += 1;
    std::memcpy(first, &value, sizeof value);
  };
}

/// 130 pairs for training: 10 batches of 12, and 10 pairs that fill none; 40 are held out.
inline std::shared_ptr<const RunData> pairs_of_points() {
  const auto all = std::make_shared<const PairsOfPoints>(170);
  return std::make_shared<const RunData>(
      RunData{.train = std::make_shared<const SampleRange>(all, Range{0, 130}),
              .held_out = std::make_shared<const SampleRange>(all, Range{130, 170}),
              .unit = "pair"});
}

/// Plans by name, as plan_of of training/engine/testing/runs.h: "serial", "dp2", "tp2", "dp2-tp2",
/// "pp2".
inline Plan distance_plan(std::string name) {
  Plan plan;
  plan.name = name;
  if (const size_t m = name.find("-m"); m != std::string::npos) {
    plan.micro_batches = std::stoi(name.substr(m + 2));
    name.resize(m);
  }
  if (name == "serial") return plan;
  const Mesh mesh = parse_mesh(name);
  plan.meshes = one_mesh(std::make_shared<const Mesh>(mesh));
  if (name.starts_with("pp2")) {
    plan.meshes = {
        {"stage0", std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"one"},
                                                std::vector<Rank>{0})},
        {"stage1", std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"one"},
                                                std::vector<Rank>{1})}};
    plan.marks = {stage("{first.*,squares}", "stage0"), stage("second.*", "stage1")};
  }
  if (name.find("dp") != std::string::npos)
    plan.marks.push_back(shard_tensor("{left,right,distance,weight}", "P(\"dp\")"));
  if (name.find("tp") != std::string::npos) {
    plan.marks.push_back(shard_tensor("first.weight", "P(None, \"tp\")"));
    plan.marks.push_back(shard_tensor("second.weight", "P(\"tp\")"));
  }
  return plan;
}

}  // namespace tessera
