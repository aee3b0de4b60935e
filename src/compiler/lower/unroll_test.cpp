// The rolled form that partition makes, and what unrolling makes of it.
#include "compiler/lower/testing/unroll.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/passes/buckets.h"
#include "compiler/lower/internal/passes/in_place.h"
#include "compiler/lower/internal/passes/order.h"
#include "compiler/lower/internal/program_uses.h"
#include "compiler/lower/internal/verify_program.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/partition.h"
#include "compiler/lower/testing/layers.h"
#include "ir/ops/builder.h"
#include "ir/ops/control/control.h"
#include "sharding/propagation/micro_batches.h"

namespace tessera {
namespace {

using testing::ElementsAre;

constexpr int64_t kUnrollRows = 24, kUnrollWidth = 4;

const std::vector<Mark> kByRows = {shard_tensor("x", "P(\"dp\")")};

/// The graph on two ranks, in micro-batches.
Program rolled(const Graph& graph, int64_t micro_batches,
               const std::vector<Mark>& marks = kByRows) {
  const Meshes meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=2")));
  const ShardedGraph sharded = propagate(graph, with_micro_batches(meshes, micro_batches), marks);
  return partition(graph, sharded, meshes, {.micro_batches = micro_batches});
}

Graph unroll_layers() {
  return testing_layers::square_layers(2, kUnrollRows, kUnrollWidth);
}

/// y = x w, and the sum of its elements.
Graph one_layer() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {kUnrollRows, kUnrollWidth}});
  const ValueId w =
      b.variable("w", {DType::kF32, {kUnrollWidth, kUnrollWidth}}, Initializer::constant(1));
  const ValueId y = b.dot(x, w, "mk,kn->mn", "y");
  graph.add_output("sum", b.reduce_sum(y, {0, 1}, "sum"));
  return graph;
}

std::vector<std::string> unroll_lines_of(const Program& program) {
  std::vector<std::string> lines;
  std::string text = to_text(program);
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
    lines.push_back(text.substr(0, end));
    text.erase(0, end + 1);
  }
  return lines;
}

std::vector<std::string> register_names(const Program& program) {
  std::vector<std::string> names;
  for (const RegisterForm& reg : program.registers) names.push_back(reg.name);
  return names;
}

// ---- the rolled form ----

TEST(RolledForm, DoesNotGrowWithTheNumberOfMicroBatches) {
  const Graph graph = unroll_layers();
  const Program two = rolled(graph, 2);
  EXPECT_NO_THROW(verify(two, "partition"));
  for (const int64_t micro_batches : {3, 4, 12}) {
    const Program more = rolled(graph, micro_batches);
    EXPECT_EQ(more.instructions.size(), two.instructions.size()) << micro_batches;
    EXPECT_EQ(more.registers.size(), two.registers.size()) << micro_batches;
    EXPECT_EQ(more.inputs.size(), two.inputs.size()) << micro_batches;
  }
}

TEST(RolledForm, HasEachOpOnceAndSumsOverMicroBatchesAsOneInstruction) {
  EXPECT_THAT(unroll_lines_of(rolled(one_layer(), 3)),
              ElementsAre("mesh dp=2", "input x: f32[8@dp, 4]", "variable w: f32[4, 4]",
                          "y #i = dot_general(x #i, w): f32[8@dp, 4]",
                          "sum #i = reduce.sum(y #i): f32[] {partial sum: dp}",
                          "sum = binary.add(sum #i): f32[] {partial sum: dp}",
                          "sum [] = all-reduce(sum): f32[] <- 'sum' is [] {partial sum: dp}, "
                          "output 'sum' is returned",
                          "output sum = sum []"));
}

TEST(RolledForm, IsNotMadeOfOneMicroBatch) {
  const Graph graph = unroll_layers();
  const Meshes meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=2")));
  const Program program = partition(graph, propagate(graph, meshes, kByRows), meshes, {});
  EXPECT_FALSE(program.rolled.has_value());
  EXPECT_EQ(to_text(unroll(program)), to_text(program));
}

TEST(RolledForm, IsUpdatedInPlace) {
  Program program = rolled(unroll_layers(), 4);
  update_variables_in_place(program);
  for (size_t v = 0; v < program.variables.size(); ++v) {
    const RegisterForm& next = program.registers[program.next[v]];
    EXPECT_EQ(next.storage, Register::Storage::kVariable) << next.name;
    EXPECT_EQ(next.variable, static_cast<int>(v));
  }
}

// ---- passes over the rolled form ----

TEST(RolledForm, HasAnOrderOfAllMicroBatches) {
  const Graph graph = unroll_layers();
  for (const int64_t micro_batches : {2, 4}) {
    Program program = rolled(graph, micro_batches);
    const int instructions = program.instructions.size();
    const int instances = order_by_op(program).size();
    order_instructions(program, graph, {.micro_batches = micro_batches});
    EXPECT_EQ(program.instructions.size(), instructions);
    EXPECT_EQ(program.order.size(), instances);
    EXPECT_NO_THROW(verify(program, "order"));
    EXPECT_NO_THROW(verify(unroll(program), "unroll"));
    EXPECT_EQ(order_text(unroll(program), {"all"}), order_text(program, {"all"}));
  }
}

TEST(RolledForm, HasTheInstructionsOfAPassNextToEachOther) {
  const Graph graph = unroll_layers();
  Program program = rolled(graph, 4);
  order_instructions(program, graph, {.micro_batches = 4});
  std::vector<std::optional<PassKind>> passes;
  for (const Instruction& instruction : program.instructions)
    if (passes.empty() || passes.back() != instruction.pass) passes.push_back(instruction.pass);
  // The gradient of the loss comes before the micro-batches, the optimizer after them.
  EXPECT_THAT(passes,
              ElementsAre(std::nullopt, PassKind::kForward, PassKind::kBackward, std::nullopt));
}

TEST(RolledForm, GradientsAreExchangedAfterTheLastMicroBatch) {
  const Graph graph = unroll_layers();
  Program program = rolled(graph, 4);
  order_instructions(program, graph, {.micro_batches = 4});
  exchange_in_buckets(program, Bytes(1));
  // The gradient of the last layer is exchanged before that of the first one is complete.
  std::vector<std::string> sums;
  for (const InstructionInstance& instance : program.order) {
    const Instruction& instruction = program.instructions[instance.instruction];
    const bool is_exchange = instruction.exchange() && instruction.role == Role::kOptimizer;
    const bool is_complete = is_sum_over_micro_batches(instruction) && instance.micro_batch == 3 &&
                             instruction.role == Role::kBackward;
    if (is_exchange || is_complete)
      sums.push_back(std::string(is_exchange ? "exchange " : "complete ") +
                     program.registers[*instruction.reads().begin()].name.text().substr(0, 4));
  }
  EXPECT_THAT(sums,
              ElementsAre("complete y.w1", "exchange y.w1", "complete y.w0", "exchange y.w0"));
  EXPECT_NO_THROW(verify(unroll(std::move(program)), "unroll"));
}

// ---- unrolling ----

TEST(Unroll, MakesTheInstructionsOfEachMicroBatchOpByOp) {
  EXPECT_THAT(unroll_lines_of(unroll(rolled(one_layer(), 3))),
              ElementsAre("mesh dp=2", "input x: f32[8@dp, 4]", "input x: f32[8@dp, 4]",
                          "input x: f32[8@dp, 4]", "variable w: f32[4, 4]",
                          "y #0 = dot_general(x #0, w): f32[8@dp, 4]",
                          "y #1 = dot_general(x #1, w): f32[8@dp, 4]",
                          "y #2 = dot_general(x #2, w): f32[8@dp, 4]",
                          "sum #0 = reduce.sum(y #0): f32[] {partial sum: dp}",
                          "sum #1 = reduce.sum(y #1): f32[] {partial sum: dp}",
                          "sum.sum #1 = binary.add(sum #0, sum #1): f32[] {partial sum: dp}",
                          "sum #2 = reduce.sum(y #2): f32[] {partial sum: dp}",
                          "sum = binary.add(sum.sum #1, sum #2): f32[] {partial sum: dp}",
                          "sum [] = all-reduce(sum): f32[] <- 'sum' is [] {partial sum: dp}, "
                          "output 'sum' is returned",
                          "output sum = sum []"));
}

TEST(Unroll, NumbersRegistersInTheOrderOfTheInstructionsOfAnOp) {
  const Program program = unroll(rolled(one_layer(), 3));
  EXPECT_THAT(register_names(program),
              ElementsAre("x #0", "x #1", "x #2", "w", "y #0", "y #1", "y #2", "sum #0", "sum #1",
                          "sum.sum #1", "sum #2", "sum", "sum []"));
  EXPECT_NO_THROW(verify(program, "unroll"));
}

TEST(Unroll, RegistersSayWhichRowsOfTheBatchTheyHold) {
  const Program program = unroll(rolled(one_layer(), 3));
  for (const RegisterForm& reg : program.registers) {
    const MicroBatch& part = reg.micro_batch;
    if (reg.name.text().starts_with("y #")) {
      EXPECT_EQ(part.dim, 0);
      EXPECT_EQ(part.begin, part.index * kUnrollRows / 3) << reg.name;
    } else if (reg.name.text().starts_with("sum.sum")) {
      EXPECT_EQ(part, (MicroBatch{1, -1, 0}));
    } else if (reg.name == "sum" || reg.name == "w") {
      EXPECT_EQ(part, MicroBatch());
    }
  }
}

TEST(Unroll, OnlyTheCompleteSumIsInTheMemoryOfAVariable) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {kUnrollRows, kUnrollWidth}});
  const ValueId total =
      b.variable("total", {DType::kF32, {kUnrollWidth}}, Initializer::constant(0));
  graph.add_output("mean", b.reduce_sum(total, {0}, "mean"));
  graph.set_next(total, b.reduce_sum(x, {0}, "columns"));
  Program program = rolled(graph, 4, {});
  update_variables_in_place(program);
  program = unroll(std::move(program));
  int sums = 0;
  for (const RegisterForm& reg : program.registers)
    if (reg.name.text().starts_with("columns.sum")) {
      ++sums;
      EXPECT_EQ(reg.storage, Register::Storage::kArena) << reg.name;
    }
  EXPECT_EQ(sums, 2) << "up to the micro-batches 1 and 2";
  EXPECT_EQ(program.registers[program.next.front()].storage, Register::Storage::kVariable);
}

TEST(Unroll, IntegersOfKernelsAreThoseOfTheMicroBatch) {
  constexpr int64_t kCount = 4;
  // Micro-batches are axis 0 and ranks axis 1 of what is divided.
  const Split rows{24, 3, {{0, kCount}, {1, 2}}};
  const LocalInt value = LocalInt(7) + 5 * LocalInt::begin_of(rows) + LocalInt::size_of(rows);
  const LocalInt first = in_micro_batch(value, kCount, 0);
  const int64_t step = micro_batch_step(value, kCount);
  EXPECT_EQ(step, 5 * (24 / kCount) * 3);
  for (int64_t i = 0; i < kCount; ++i)
    EXPECT_EQ(in_micro_batch(value, kCount, i), first + LocalInt(i * step)) << i;
  EXPECT_EQ(micro_batch_step(LocalInt::begin_of({24, 1, {{1, 2}}}), kCount), 0);
}

TEST(Unroll, TakesAnyOrderInWhichMicroBatchesAscend) {
  Program program = rolled(one_layer(), 2);
  InstanceOrder& order = program.order = order_by_op(program);
  // y #0, y #1, sum #0, sum #1, ... becomes y #0, sum #0, y #1, sum #1, ...
  std::swap(order.at(Time(1)), order.at(Time(2)));
  const Program unrolled = unroll(std::move(program));
  EXPECT_NO_THROW(verify(unrolled, "unroll"));
  std::vector<int> micro_batches;
  for (const Instruction& instruction : unrolled.instructions)
    micro_batches.push_back(instruction.micro_batch);
  EXPECT_THAT(micro_batches, ElementsAre(0, 0, 1, 1, 1, -1));
}

/// The pass "prefetch" may move the exchange of a micro-batch after that of a later one.
TEST(Unroll, TakesMicroBatchesInAnyOrder) {
  for (const int micro_batches : {2, 3, 4}) {
    Program program = rolled(one_layer(), micro_batches);
    InstanceOrder& order = program.order = order_by_op(program);
    // The products come first, from the last micro-batch to the first one.
    std::reverse(order.begin(), order.begin() + micro_batches);
    const Program unrolled = unroll(std::move(program));
    EXPECT_NO_THROW(verify(unrolled, "unroll"));
    for (int i = 0; i < micro_batches; ++i) {
      const Instruction& product = unrolled.instructions[InstructionIndex(micro_batches - 1 - i)];
      ASSERT_EQ(product.reads().size(), 2U);
      EXPECT_EQ(unrolled.registers[product.reads().front()].name, "x #" + std::to_string(i));
      EXPECT_EQ(unrolled.registers[*product.writes().begin()].name, "y #" + std::to_string(i));
    }
  }
}

/// x or -x, as the predicate says.
Graph branch() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {kUnrollRows, kUnrollWidth}});
  const ValueId predicate = b.input("predicate", {DType::kBool, {}});
  const auto opposite = [](Builder& region, const RegionValues& values) {
    return std::vector{region.unary("neg", values.captured[0], "opposite")};
  };
  const auto bent = [](Builder& region, const RegionValues& values) {
    return std::vector{region.unary("tanh", values.captured[0], "bent")};
  };
  const ValueId y = build_if(b, {.predicate = predicate,
                                 .captured = {x},
                                 .then_region = opposite,
                                 .else_region = bent,
                                 .name = "choice"})[0];
  graph.add_output("sum", b.reduce_sum(y, {0, 1}, "sum"));
  return graph;
}

TEST(Unroll, LowersRegionsOfEachMicroBatch) {
  std::vector<int> lowered;  // micro-batches
  const auto lower_region = [&](const RegionSite& site) {
    lowered.push_back(site.micro_batch);
    Control control;
    control.max_iterations = site.micro_batch;
    return std::make_shared<const Control>(std::move(control));
  };
  const Graph graph = branch();
  const Meshes meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=2")));
  const ShardedGraph sharded = propagate(graph, with_micro_batches(meshes, 3), kByRows);
  Program program =
      partition(graph, sharded, meshes, {.micro_batches = 3, .lower_region = lower_region});
  EXPECT_THAT(lowered, ElementsAre(0));
  program = unroll(std::move(program));
  EXPECT_THAT(lowered, ElementsAre(0, 1, 2));
  for (const Instruction& instruction : program.instructions) {
    const KernelForm* kernel = instruction.kernel();
    if (!kernel || !kernel->control) continue;
    EXPECT_EQ(kernel->control->max_iterations, instruction.micro_batch);
  }
}

/// By micro-batch x changes, and w in the same way in each: w is not divided by micro-batches.
Graph branch_of_two() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {kUnrollRows, kUnrollWidth}});
  const ValueId w = b.variable("w", {DType::kF32, {kUnrollWidth}}, Initializer::constant(1));
  const ValueId predicate = b.input("predicate", {DType::kBool, {}});
  const auto region = [](const char* op) {
    return [op](Builder& inside, const RegionValues& values) {
      return std::vector{inside.unary(op, values.captured[0], "first"),
                         inside.unary(op, values.captured[1], "second")};
    };
  };
  const std::vector<ValueId> y = build_if(b, {.predicate = predicate,
                                              .captured = {x, w},
                                              .then_region = region("neg"),
                                              .else_region = region("tanh"),
                                              .name = "choice"});
  graph.add_output("sum", b.reduce_sum(y[0], {0, 1}, "sum"));
  graph.set_next(w, y[1]);
  return graph;
}

TEST(Unroll, AValueOfTheStepThatEachMicroBatchComputesIsThatOfTheFirstOne) {
  const auto lower_region = [](const RegionSite&) { return std::make_shared<const Control>(); };
  const Graph graph = branch_of_two();
  const Meshes meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=2")));
  const ShardedGraph sharded = propagate(graph, with_micro_batches(meshes, 3), kByRows);
  Program program =
      partition(graph, sharded, meshes, {.micro_batches = 3, .lower_region = lower_region});
  update_variables_in_place(program);
  program = unroll(std::move(program));
  EXPECT_NO_THROW(verify(program, "unroll"));
  const ProgramUses uses(program);
  // The later micro-batches still read w: it is not written over by the first one.
  const Instruction& copy = program.instructions[uses.writer(program.next.front())];
  ASSERT_TRUE(copy.kernel());
  EXPECT_EQ(copy.kernel()->purpose, KernelPurpose::kCopyNext);
  const Instruction& writer = program.instructions[uses.writer(copy.reads().front())];
  EXPECT_EQ(writer.micro_batch, 0);
}

}  // namespace
}  // namespace tessera
