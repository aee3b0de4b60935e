// An lstm over time, with its gradients: compares the loop with its cells written one after the
// other, and the divided loop with the oracle.
#include "ir/models/over_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/autodiff/gradient.h"
#include "ir/ops/interpreter.h"
#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {
namespace {

constexpr int64_t kBatch = 4, kPlaces = 3, kIn = 3, kOverTimeWidth = 6, kGates = 4;

/// State h, c [B, H]; captured w[I, 4, H], u[H, 4, H]. The gates are a dim of their own, so that
/// the width can be divided.
std::vector<ValueId> lstm(Builder& builder, ValueId x, const std::vector<ValueId>& state,
                          const std::vector<ValueId>& captured) {
  const ValueId from_x = builder.dot(x, captured[0], "bi,igh->bgh");
  const ValueId from_h = builder.dot(state[0], captured[1], "bk,kgh->bgh");
  const ValueId gates = builder.add(from_x, from_h);
  const auto gate = [&](int64_t index, std::string_view bend) {
    const ValueId part =
        builder.slice(gates, {0, index, 0}, {kBatch, index + 1, kOverTimeWidth}, {1, 1, 1});
    const ValueId row = builder.reshape(part, {kBatch, kOverTimeWidth});
    return builder.unary(bend, row);
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
    rows.push_back(builder.reshape(state[0], {kBatch, 1, kOverTimeWidth}));
  }
  return {builder.concat(rows, 1), state};
}

/// The sum of the squares of all outputs and of the last c; outputs loss and gradient0 to
/// gradient4, of x, w, u, h and c.
Graph over_time_trained(bool in_a_loop) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {kBatch, kPlaces, kIn}});
  const ValueId h = builder.input("h", {DType::kF32, {kBatch, kOverTimeWidth}});
  const ValueId c = builder.input("c", {DType::kF32, {kBatch, kOverTimeWidth}});
  const ValueId w = builder.variable("w", {DType::kF32, {kIn, kGates, kOverTimeWidth}},
                                     Initializer::normal(0, 0.5));
  const ValueId u = builder.variable("u", {DType::kF32, {kOverTimeWidth, kGates, kOverTimeWidth}},
                                     Initializer::normal(0, 0.5));
  const OverTime run = in_a_loop ? over_time(builder, x, {h, c}, {w, u}, lstm)
                                 : unrolled(builder, x, {h, c}, {w, u});
  const ValueId outputs = builder.mul(run.outputs, run.outputs),
                last = builder.mul(run.state[1], run.state[1]);
  const ValueId of_outputs = builder.reduce_sum(outputs, {0, 1, 2}),
                of_last = builder.reduce_sum(last, {0, 1});
  const ValueId loss = builder.add(of_outputs, of_last, "loss");
  graph.add_output("loss", loss);
  const std::vector<ValueId> gradients = differentiate(builder, loss, {x, w, u, h, c});
  for (size_t i = 0; i < gradients.size(); ++i)
    graph.add_output("gradient" + std::to_string(i), gradients[i]);
  return graph;
}

ReferenceTensor waves(const Shape& shape) {
  ReferenceTensor tensor{{DType::kF32, shape}, {}};
  for (int64_t i = 0; i < element_count(shape); ++i)
    tensor.values.push_back(std::sin(static_cast<double>(i)));
  return tensor;
}

TEST(OverTimeGradient, IsThatOfTheCellsOneAfterTheOther) {
  const Graph loop = over_time_trained(true), rows = over_time_trained(false);
  ReferenceValues state = initial_variables(loop, 3);
  state["x"] = waves({kBatch, kPlaces, kIn});
  state["h"] = state["c"] = waves({kBatch, kOverTimeWidth});
  const ReferenceValues a = interpret(loop, state), b = interpret(rows, state);
  for (const auto& [name, value] : loop.outputs()) {
    const ReferenceTensor& got = a.at(loop.value(value).name);
    const ReferenceTensor& wanted = b.at(rows.value(rows.output(name)).name);
    double size = 1;
    for (double element : wanted.values) size = std::max(size, std::abs(element));
    // Both are in doubles: a few thousand roundings of 2^-53.
    EXPECT_LE(largest_change(got, wanted), size * 0x1p-40) << name;
  }
}

struct OverTimeDivision {
  const char* mesh;
  std::vector<Mark> marks;
  int64_t micro_batches;
};

TEST(OverTimeGradient, RunsUnderDataAndTensorParallelPlansAndInMicroBatches) {
  const std::vector<Mark> rows{shard_tensor("x", "P(\"dp\")")};
  const std::vector<Mark> width{shard_tensor("w", "P(None, None, \"tp\")"),
                                shard_tensor("u", "P(None, None, \"tp\")")};
  std::vector<Mark> both = rows;
  both.insert(both.end(), width.begin(), width.end());
  for (const auto& [mesh, marks, micro_batches] :
       {OverTimeDivision{"dp=1", {}, 1}, OverTimeDivision{"dp=3", rows, 1},
        OverTimeDivision{"tp=2", width, 1}, OverTimeDivision{"tp=4", width, 1},
        OverTimeDivision{"dp=2 tp=2", both, 1}, OverTimeDivision{"dp=2", rows, 2},
        OverTimeDivision{"dp=2 tp=2", both, 2}}) {
    FuzzCase given;
    given.seed = 7;
    given.graph = over_time_trained(true);
    given.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh(mesh)));
    given.marks = marks;
    given.micro_batches = micro_batches;
    CaseFaults faults;
    faults.on_refusal = [&] { ADD_FAILURE() << "refused in micro-batches: " << mesh; };
    const auto failure = run_case(given, faults);
    EXPECT_EQ(failure ? failure->text : "", "") << mesh << " in " << micro_batches;
  }
}

// The results would agree even if each rank computed everything. So the test checks that the state
// of the cell is divided.
TEST(OverTimeGradient, DividesTheStateOfTheCell) {
  const MeshPtr mesh = std::make_shared<const Mesh>(parse_mesh("dp=2 tp=2"));
  const Graph graph = over_time_trained(true);
  const ShardedGraph sharded =
      propagate(graph, one_mesh(mesh),
                {shard_tensor("x", "P(\"dp\")"), shard_tensor("w", "P(None, None, \"tp\")")});
  const ValueId last = *graph.find_value("time:3");
  EXPECT_EQ(tessera::to_text(graph.type(last), sharded.values[last.index]), "f32[4@dp, 6@tp]");
}

}  // namespace
}  // namespace tessera::fuzz
