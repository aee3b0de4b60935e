#include "ir/models/over_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/ops/interpreter.h"

namespace tessera {
namespace {

constexpr int64_t kBatch = 2, kPlaces = 4, kIn = 3, kWidth = 5;

/// An lstm cell: state h, c; captured w[I, 4H], u[H, 4H].
std::vector<ValueId> lstm(Builder& builder, ValueId x, const std::vector<ValueId>& state,
                          const std::vector<ValueId>& captured) {
  const ValueId from_x = builder.dot(x, captured[0], "bi,ig->bg");
  const ValueId from_h = builder.dot(state[0], captured[1], "bh,hg->bg");
  const ValueId gates = builder.add(from_x, from_h);
  const auto gate = [&](int64_t index, std::string_view bend) {
    const ValueId part =
        builder.slice(gates, {0, index * kWidth}, {kBatch, (index + 1) * kWidth}, {1, 1});
    return builder.unary(bend, part);
  };
  const ValueId in = gate(0, "logistic"), forget = gate(1, "logistic"), out = gate(2, "logistic"),
                candidate = gate(3, "tanh");
  const ValueId kept = builder.mul(forget, state[1]);
  const ValueId taken = builder.mul(in, candidate);
  const ValueId c = builder.add(kept, taken);
  const ValueId bent = builder.unary("tanh", c);
  return {builder.mul(out, bent), c};
}

OverTime unrolled(Builder& builder, ValueId x, std::vector<ValueId> state,
                  const std::vector<ValueId>& captured) {
  std::vector<ValueId> rows;
  for (int64_t t = 0; t < kPlaces; ++t) {
    const ValueId part = builder.slice(x, {0, t, 0}, {kBatch, t + 1, kIn}, {1, 1, 1});
    const ValueId row = builder.reshape(part, {kBatch, kIn});
    state = lstm(builder, row, state, captured);
    rows.push_back(builder.reshape(state[0], {kBatch, 1, kWidth}));
  }
  return {builder.concat(rows, 1), state};
}

TEST(OverTime, IsTheCellsOneAfterTheOther) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {kBatch, kPlaces, kIn}});
  const ValueId w =
      builder.variable("w", {DType::kF32, {kIn, 4 * kWidth}}, Initializer::normal(0, 0.5));
  const ValueId u =
      builder.variable("u", {DType::kF32, {kWidth, 4 * kWidth}}, Initializer::normal(0, 0.5));
  const ValueId h = builder.constant({DType::kF32, {kBatch, kWidth}}, 0, "h");
  const ValueId c = builder.constant({DType::kF32, {kBatch, kWidth}}, 0, "c");
  const OverTime loop = over_time(builder, x, {h, c}, {w, u}, lstm);
  const OverTime rows = unrolled(builder, x, {h, c}, {w, u});
  ReferenceValues state = initial_variables(graph, 1);
  state["x"] = {{DType::kF32, {kBatch, kPlaces, kIn}}, {}};
  for (int i = 0; i < kBatch * kPlaces * kIn; ++i) state["x"].values.push_back(std::sin(i));
  const ReferenceValues values = interpret(graph, state);
  const auto of = [&](ValueId value) { return values.at(graph.value(value).name); };
  EXPECT_EQ(of(loop.outputs).values, of(rows.outputs).values);
  EXPECT_EQ(of(loop.state[1]).values, of(rows.state[1]).values);
}

}  // namespace
}  // namespace tessera
