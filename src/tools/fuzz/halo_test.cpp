// Compares computed halos with the reference interpreter: every register, for every form of halo.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/autodiff/optimizer.h"
#include "ir/ops/builder.h"
#include "ir/ops/spatial.h"
#include "tools/fuzz/fuzz.h"

namespace tessera::fuzz {
namespace {

constexpr HaloForm kForms[] = {HaloForm::kExchange, HaloForm::kRecompute, HaloForm::kAuto};

/// The failure under any form of halo; "" when there is none.
std::string failures_of_forms(const Graph& graph, std::string_view mesh, std::vector<Mark> marks,
                              int64_t micro_batches = 1) {
  FuzzCase given;
  given.seed = 5;
  given.graph = graph;
  given.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh(mesh)));
  given.marks = std::move(marks);
  given.micro_batches = micro_batches;
  std::string text;
  for (HaloForm form : kForms) {
    CaseFaults faults;
    faults.halos = form;
    if (const auto failure = run_case(given, faults)) text += failure->text + "\n";
  }
  return text;
}

const std::vector<Mark> kByHeight = {shard_tensor("x", "P(None, None, \"h\")")};
const std::vector<Mark> kByBoth = {shard_tensor("x", "P(None, None, \"h\", \"w\")")};

ValueId layer(Builder& b, ValueId x, int64_t channels, const SpatialOptions& options,
              const std::string& name) {
  const ValueId w = b.variable(name + ".w", {DType::kF32, {channels, b.shape(x)[1], 3, 3}},
                               Initializer::normal(0, 0.3));
  const ValueId y = convolution(b, x, w, options, name);
  return b.unary("tanh", y, name + ".tanh");
}

/// Three convolutions, of which the second computes every other row; with a backward when
/// `trained`.
Graph three_layers(int64_t rows, bool trained) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {2, 2, rows, 6}});
  const ValueId a = layer(b, x, 3, same_places({3, 3}), "a");
  SpatialOptions half = same_places({3, 3});
  half.stride = {2, 2};
  const ValueId c = layer(b, a, 2, half, "c");
  const ValueId d = layer(b, c, 2, same_places({3, 3}), "d");
  const ValueId squares = b.unary("square", d, "squares");
  const ValueId loss = b.reduce_sum(squares, {0, 1, 2, 3}, "loss");
  if (!trained) {
    graph.add_output("loss", loss);
    return graph;
  }
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kSgd});
  return graph;
}

TEST(HaloForms, GiveTheSerialResults) {
  for (const bool trained : {false, true}) {
    EXPECT_EQ(failures_of_forms(three_layers(8, trained), "h=2", kByHeight), "") << trained;
    EXPECT_EQ(failures_of_forms(three_layers(7, trained), "h=2", kByHeight), "") << trained;
    EXPECT_EQ(failures_of_forms(three_layers(5, trained), "h=3", kByHeight), "") << trained;
    EXPECT_EQ(failures_of_forms(three_layers(2, trained), "h=3", kByHeight), "")
        << trained;  // some have no row
    EXPECT_EQ(failures_of_forms(three_layers(7, trained), "h=2 w=2", kByBoth), "") << trained;
    EXPECT_EQ(failures_of_forms(three_layers(6, trained), "h=2", kByHeight, 2), "") << trained;
  }
}

/// Pooling, resize and a skip connection between convolutions.
Graph up_and_down() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {1, 2, 9, 6}});
  const ValueId a = layer(b, x, 2, same_places({3, 3}), "a");
  const ValueId low = max_pool(b, a, {2, 2}, {}, "low");
  const ValueId c = layer(b, low, 2, same_places({3, 3}), "c");
  const ValueId mean =
      average_pool(b, c, {3, 3}, {.stride = {1, 1}, .low = {1, 1}, .high = {1, 1}}, false, "mean");
  const ValueId up = resize(b, mean, {9, 6}, ResizeMode::kLinear, Corners::kHalfPixel, "up");
  const ValueId both = b.add(up, a, "both");
  const ValueId d = layer(b, both, 2, same_places({3, 3}), "d");
  graph.add_output("y", d);
  return graph;
}

TEST(HaloForms, GoThroughPoolingResizeAndSkips) {
  EXPECT_EQ(failures_of_forms(up_and_down(), "h=2", kByHeight), "");
  EXPECT_EQ(failures_of_forms(up_and_down(), "h=4", kByHeight), "");
  EXPECT_EQ(failures_of_forms(up_and_down(), "h=2 w=2", kByBoth), "");
}

/// Is there an op that computes overlapping parts?
bool makes_windows(const TaskGraph& tasks) {
  for (const Task& task : tasks.tasks)
    for (const KernelStep& step : task.steps)
      for (RegisterIndex reg : step.outputs)
        if (tasks.registers[reg].attr.has_windows()) return true;
  return false;
}

TEST(HaloForms, RandomProgramsComputeWhatTheSerialProgramComputes) {
  for (HaloForm form : {HaloForm::kExchange, HaloForm::kRecompute}) {
    std::string failures;
    int computed = 0;  // programs with a computed halo
    FuzzOptions options;
    options.cases = 300;
    options.seed = 40000;
    options.faults.halos = form;
    options.on_failure = [&](const FuzzFinding& finding) { failures += to_text(finding) + "\n"; };
    options.faults.tamper = [&](TaskGraph& tasks) {
      computed += makes_windows(tasks) ? 1 : 0;
    };  // looks, and plants nothing
    run_cases(options);
    EXPECT_EQ(failures, "");
    if (form == HaloForm::kExchange)
      EXPECT_EQ(computed, 0);
    else
      EXPECT_GE(computed, 15);
  }
}

}  // namespace
}  // namespace tessera::fuzz
