// Which halos are exchanged, which are computed, and how many bytes and rows that is.
#include "compiler/lower/internal/passes/halo_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text/text.h"
#include "compiler/lower/lower.h"
#include "ir/ops/builder.h"
#include "ir/ops/spatial.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::EndsWith;

const std::vector<Mark> kByHeight = {shard_tensor("x", "P(None, None, \"h\")")};

/// x[2, 3, rows, 5] -> y1[2, 4, rows, 5] -> y2[2, 2, rows, 5]: windows of 3x3, padding of 1.
Graph two_convolutions(int64_t rows = 8) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {2, 3, rows, 5}});
  const ValueId w1 = b.variable("w1", {DType::kF32, {4, 3, 3, 3}}, Initializer::normal(0, 1));
  const ValueId w2 = b.variable("w2", {DType::kF32, {2, 4, 3, 3}}, Initializer::normal(0, 1));
  const ValueId y1 = convolution(b, x, w1, same_places({3, 3}), "y1");
  graph.add_output("y2", convolution(b, y1, w2, same_places({3, 3}), "y2"));
  return graph;
}

Compiled halo_choice_compiled(const Graph& graph, std::string_view mesh, const CostModel& cost,
                              const std::vector<Mark>& marks = kByHeight) {
  return compile(graph, Plan{.meshes = one_mesh(mesh_of(mesh)), .cost = cost, .marks = marks});
}
Compiled halo_choice_compiled(const Graph& graph, std::string_view mesh, HaloForm form,
                              const std::vector<Mark>& marks = kByHeight) {
  return compile(graph, Plan{.meshes = one_mesh(mesh_of(mesh)), .halos = form, .marks = marks});
}

/// Bytes of `value` that each rank gets from others.
std::vector<int64_t> received(const Compiled& made, const std::string& value) {
  std::vector<int64_t> bytes(made.tasks.meshes.front()->ranks().size(), 0);
  for (const Task& task : made.tasks.tasks) {
    for (size_t part = 0; part < task.parts.size(); ++part) {
      const Register& source = made.tasks.registers[task.inputs[part]];
      if (source.name.text().substr(0, source.name.text().find(' ')) != value) continue;
      for (size_t rank = 0; rank < bytes.size(); ++rank)
        bytes[rank] += size_of(source.type->dtype) * received_elements(source.type->shape,
                                                                       {task.parts[part].exchange},
                                                                       static_cast<Rank>(rank));
    }
  }
  return bytes;
}

/// Elements of dim 2 that each rank makes of the result of `op`.
std::vector<int64_t> rows_made(const Compiled& made, std::string_view op) {
  std::vector<int64_t> rows;
  const Mesh& mesh = *made.tasks.meshes.front();
  for (const Task& task : made.tasks.tasks)
    for (const KernelStep& step : task.steps)
      for (int i = 0; step.op == op && i < mesh.size(); ++i)
        rows.push_back(
            local_type(made.tasks.registers[step.outputs.front()], mesh.coordinate_at(i)).shape[2]);
  return rows;
}

// ---- counts ----

TEST(Halos, ExchangedEachLayerReceivesOneRow) {
  // 8 rows on 2 ranks: 4 and 4, each with one neighbour. A row of x has 2 images x 3 channels x
  // 5 columns x 4 bytes = 120 bytes, a row of y1 2 x 4 x 5 x 4 = 160.
  const Compiled made = halo_choice_compiled(two_convolutions(), "h=2", HaloForm::kExchange);
  EXPECT_THAT(received(made, "x"), ElementsAre(120, 120));
  EXPECT_THAT(received(made, "y1"), ElementsAre(160, 160));
  EXPECT_THAT(rows_made(made, "y1"), ElementsAre(4, 4));
  EXPECT_THAT(rows_made(made, "y2"), ElementsAre(4, 4));
}

TEST(Halos, ComputedTheFirstLayerReceivesTwoRowsAndTheSecondNone) {
  // The 4 rows of y2 need 5 of y1 (at the border there is padding), and those 6 of x: 2 more than
  // its own. One row of y1 is made by both.
  const Compiled made = halo_choice_compiled(two_convolutions(), "h=2", HaloForm::kRecompute);
  EXPECT_THAT(received(made, "x"), ElementsAre(2 * 120, 2 * 120));
  EXPECT_THAT(received(made, "y1"), ElementsAre(0, 0));
  EXPECT_THAT(rows_made(made, "y1"), ElementsAre(5, 5));
  EXPECT_THAT(rows_made(made, "y2"), ElementsAre(4, 4));
}

TEST(Halos, HeightsNeedNotBeEqual) {
  // 7 rows on 3 ranks: 3, 2 and 2, [0:3] [3:5] [5:7]. Of y1 the first needs [0:4], the second
  // [2:6], the last [4:7]; of x [0:5], [1:7] and [3:7]: 2 rows more, 2 above and 2 below, and 2.
  const Compiled computed = halo_choice_compiled(two_convolutions(7), "h=3", HaloForm::kRecompute);
  EXPECT_THAT(rows_made(computed, "y1"), ElementsAre(4, 4, 3));
  EXPECT_THAT(received(computed, "x"), ElementsAre(2 * 120, 4 * 120, 2 * 120));
  const Compiled exchanged = halo_choice_compiled(two_convolutions(7), "h=3", HaloForm::kExchange);
  EXPECT_THAT(received(exchanged, "x"), ElementsAre(120, 2 * 120, 120));
  EXPECT_THAT(received(exchanged, "y1"), ElementsAre(160, 2 * 160, 160));
}

/// Of three convolutions the second takes every other row; a bias and a tanh stand between them.
Graph halo_choice_three_layers(int64_t rows) {
  Graph graph;
  Builder b(graph);
  ValueId x = b.input("x", {DType::kF32, {1, 2, rows, 4}});
  for (int i = 1; i <= 3; ++i) {
    const std::string n = std::to_string(i);
    const ValueId w = b.variable("w" + n, {DType::kF32, {2, 2, 3, 3}}, Initializer::normal(0, 1));
    SpatialOptions options = same_places({3, 3});
    if (i == 2) options.stride = {2, 2};
    x = convolution(b, x, w, options, "c" + n);
    const Shape shape = b.shape(x);
    const ValueId bias = b.variable("b" + n, {DType::kF32, {2}}, Initializer::normal(0, 1));
    const ValueId everywhere = b.broadcast(bias, shape, {1}, "bias" + n);
    x = b.add(x, everywhere, "s" + n);
    if (i < 3) x = b.unary("tanh", x, "r" + n);
  }
  graph.add_output("y", x);
  return graph;
}

TEST(Halos, AChainGoesThroughTheOpsBetweenAndThroughStrides) {
  // 7 rows, of which c2 makes (7 - 1) / 2 + 1 = 4, on 2 ranks 2 and 2. Of c2 they need [0:3]
  // and [1:4], of r1 rows 2 o - 1 to 2 o + 1 of those: [0:6] and [1:7], and of x [0:7] twice. x
  // is divided into [0:4] and [4:7]: a row has 2 channels x 4 columns x 4 bytes = 32.
  const Compiled made =
      halo_choice_compiled(halo_choice_three_layers(7), "h=2", HaloForm::kRecompute);
  for (const char* op : {"c2", "bias2", "s2", "r2"})
    EXPECT_THAT(rows_made(made, op), ElementsAre(3, 3)) << op;
  for (const char* op : {"c1", "bias1", "s1", "r1"})
    EXPECT_THAT(rows_made(made, op), ElementsAre(6, 6)) << op;
  EXPECT_THAT(received(made, "x"), ElementsAre(3 * 32, 4 * 32));
  for (const char* value : {"c1", "s1", "r1", "c2", "s2", "r2"})
    EXPECT_THAT(received(made, value), ElementsAre(0, 0)) << value;
}

// ---- the choice ----

/// Nothing costs but a message and arithmetic.
CostModel only(double latency, double flops_per_second) {
  return {.device = {.flops_per_second = flops_per_second,
                     .bytes_per_second = 1e30,
                     .copied_bytes_per_second = 1e30,
                     .launch = Seconds(0)},
          .links = {.any = {Seconds(latency), 1e30}}};
}

TEST(Halos, TheCheaperFormIsTaken) {
  // Computed, one message less: of x two rows come from the one neighbour instead of one. A row of
  // y1 is 2 images x 4 channels x 5 columns of 3 channels x 9 elements, 2 flops each: 2160.
  EXPECT_THAT(rows_made(halo_choice_compiled(two_convolutions(), "h=2", only(1.1, 2160)), "y1"),
              ElementsAre(5, 5));
  EXPECT_THAT(rows_made(halo_choice_compiled(two_convolutions(), "h=2", only(0.9, 2160)), "y1"),
              ElementsAre(4, 4));
}

TEST(Halos, OfALongChainTheBestPartIsTaken) {
  // Without layers that compute much each latency that is saved counts: to the input. Where the
  // second layer is as dear as a message, each layer is for itself.
  const Compiled all = halo_choice_compiled(halo_choice_three_layers(7), "h=2", only(1, 1e30));
  EXPECT_THAT(received(all, "r1"), ElementsAre(0, 0));
  EXPECT_THAT(received(all, "r2"), ElementsAre(0, 0));
  // A row of c2 is 2 channels x 2 columns of 2 channels x 9 elements, 2 flops each: 144. One of c1
  // is twice that, and two more are made. At 200 flops a message the former is worth it, the latter
  // not.
  const Compiled some = halo_choice_compiled(halo_choice_three_layers(7), "h=2", only(1, 200));
  EXPECT_THAT(rows_made(some, "c2"), ElementsAre(3, 3));
  EXPECT_THAT(received(some, "r2"), ElementsAre(0, 0));
  EXPECT_THAT(rows_made(some, "c1"), ElementsAre(4, 3));
}

TEST(Halos, TheReasonSaysWhichFormWasTaken) {
  const Graph graph = two_convolutions();
  const auto reason = [&](const CostModel& cost) {
    const Compiled made = halo_choice_compiled(graph, "h=2", cost);
    const ValueId y1 = *made.graph.find_value("y1");
    return to_text(made.graph.type(y1), made.sharded.at(y1)) + ": " +
           made.sharded.value_reasons[y1.index];
  };
  EXPECT_EQ(
      reason(only(1.1, 2160)),
      "f32[2, 4, 8@h~8(-1:+1), 5]: op 'y1' divides factor o0; its halo for op 'y2' is computed");
  EXPECT_EQ(reason(only(0.9, 2160)),
            "f32[2, 4, 8@h, 5]: op 'y1' divides factor o0; its halo for op 'y2' is exchanged");
}

// ---- what stays plain ----

TEST(Halos, WhatIsMarkedOrHandedOutIsExchanged) {
  const Compiled marked =
      halo_choice_compiled(two_convolutions(), "h=2", HaloForm::kRecompute,
                           {kByHeight.front(), shard_tensor("y1", "P(None, None, \"h\")")});
  EXPECT_THAT(received(marked, "y1"), ElementsAre(160, 160));
  Graph graph = two_convolutions();
  graph.add_output("y1", *graph.find_value("y1"));
  const Compiled shown = halo_choice_compiled(graph, "h=2", HaloForm::kRecompute);
  EXPECT_THAT(rows_made(shown, "y1"), ElementsAre(4, 4));
}

TEST(Halos, WhatAnotherReaderWantsWholeIsExchanged) {
  // Each rank would gather rows that two of them made.
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {8, 4}});
  const ValueId t = b.unary("tanh", x, "t");
  graph.add_output("next", b.slice(t, {1, 0}, {8, 4}, {1, 1}, "next"));
  graph.add_output("all", b.unary("neg", t, "all"));
  const Compiled made =
      halo_choice_compiled(graph, "h=2", HaloForm::kRecompute,
                           {shard_tensor("x", "P(\"h\")"), shard_op("all", "[P()]")});
  EXPECT_FALSE(made.sharded.at(*made.graph.find_value("t")).has_windows());
}

TEST(Halos, AReaderThatWantsThePlainPartTakesItFromTheWiderOne) {
  // s adds up all rows of y1, each once.
  Graph graph = two_convolutions();
  {
    Builder b(graph);
    graph.add_output("s", b.reduce_sum(*graph.find_value("y1"), {2}, "s"));
  }
  const Compiled made = halo_choice_compiled(graph, "h=2", HaloForm::kRecompute);
  EXPECT_THAT(rows_made(made, "y1"), ElementsAre(5, 5));
  EXPECT_THAT(received(made, "y1"), ElementsAre(0, 0));
}

}  // namespace
}  // namespace tessera
