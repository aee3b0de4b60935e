#include "compiler/lower/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/testing/tensor_types.h"
#include "compiler/lower/partition.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

/// "all-gather y: [@d, *] -> [*, *]" a line an exchange, in program order.
std::vector<std::string> lower_exchanges(const Program& program) {
  std::vector<std::string> lines;
  for (const Instruction& i : program.instructions)
    if (const ExchangeStep* step = i.exchange())
      lines.push_back(std::string(to_text(step->kind())) + " " +
                      program.registers[step->source()].name + " " + to_text(step->exchange().to));
  return lines;
}

/// Y0 = X B0, Y1 = Y0 B1, loss = sum(Y1 R); the first matmul by (S0,B), the second by (B,S1).
Graph two_matmuls() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("X", f32({8, 6}));
  const ValueId b0 = b.variable("B0", f32({6, 4}), Initializer::normal(0, 1));
  const ValueId b1 = b.variable("B1", f32({4, 10}), Initializer::normal(0, 1));
  const ValueId r = b.input("R", f32({8, 10}));
  const ValueId y0 = b.dot(x, b0, "mk,kn->mn", "Y0");
  const ValueId y1 = b.dot(y0, b1, "mk,kn->mn", "Y1");
  const ValueId loss = b.reduce_sum(b.mul(y1, r, "weighted"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  const auto gradients = differentiate(b, loss, {b0, b1});
  graph.add_output("dB0", gradients[0]);
  graph.add_output("dB1", gradients[1]);
  return graph;
}

TEST(ProgramHash, IsThatOfThePlacementsAndNotOfTheirReasons) {
  const Graph graph = two_matmuls();
  const auto program = [&](const std::vector<Mark>& marks) {
    return partition(graph, propagate(graph, mesh_of("d=2"), marks));
  };
  const Program rows = program({shard_op("Y0", "[P(\"d\"), P()]")});
  EXPECT_EQ(hash_of(rows), hash_of(program({shard_op("Y0", "[P(\"d\"), P()]")})));
  EXPECT_EQ(hash_of(rows),
            hash_of(program({shard_tensor("X", "P(\"d\")"), shard_op("Y0", "[P(\"d\"), P()]")})));
  EXPECT_NE(hash_of(rows), hash_of(program({shard_op("Y0", "[P(), P(None, \"d\")]")})));
  EXPECT_NE(hash_of(rows), hash_of(program({})));
}

// The worked example of docs/sharding.md.
TEST(Partition, TwoMatmulsSplitByRowsAndThenByColumnsNeedTheseExchanges) {
  const Graph graph = two_matmuls();
  const std::vector<Mark> marks = {shard_op("Y0", "[P(\"d\"), P()]"),
                                   shard_op("Y1", "[P(), P(None,\"d\")]")};
  const Program program = partition(graph, propagate(graph, mesh_of("d=2"), marks));
  std::vector<std::string> about_matmuls;
  for (const std::string& line : lower_exchanges(program))
    if (line.find("loss") == std::string::npos) about_matmuls.push_back(line);
  EXPECT_THAT(about_matmuls, testing::ElementsAre(
                                 "all-gather Y0 [*, *]",                         // forward
                                 testing::StartsWith("reduce-scatter Y1.grad"),  // dY0
                                 testing::StartsWith("all-reduce Y0.grad")));  // dB0; none for dB1
}

/// The number of exchanges for the sum of four partial values of 16 KiB.
int64_t exchanges_of_a_sum(const Plan& plan) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({64, 8}));
  const ValueId w = b.variable("w", f32({8, 64}), Initializer::normal(0, 1));
  graph.add_output("y", b.dot(x, w, "mk,kn->mn", "y"));
  const TaskGraph tasks = compile(graph, plan).tasks;
  return std::count_if(tasks.tasks.begin(), tasks.tasks.end(),
                       [](const Task& task) { return task.kind == Task::Kind::kExchange; });
}

TEST(Compile, DecidesByTheCostModelOfThePlan) {
  Plan plan;
  plan.meshes = one_mesh(mesh_of("d=4"));
  plan.marks = {shard_tensor("x", "P(None, \"d\")"), shard_tensor("w", "P(\"d\")"),
                shard_tensor("y", "P()")};
  // All of it from three others: 3 latencies and 3 x 16 KiB, 3 us + 9.8 us. A reduce-scatter and an
  // all-gather: 6 latencies and 1.5 x 16 KiB, 6 us + 4.9 us.
  EXPECT_EQ(exchanges_of_a_sum(plan), 2);
  plan.cost.links.any.latency = Seconds(10e-6);  // 30 us + 9.8 us, 60 us + 4.9 us
  EXPECT_EQ(exchanges_of_a_sum(plan), 1);
}

TEST(Partition, AValueIsReshardedToOnePlacementOnce) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 8}));
  const ValueId y = b.unary("tanh", x, "y");
  b.reduce(ReduceOp::kMax, b.slice(y, {0, 0}, {4, 8}, {1, 1}, "p"), {0, 1});
  b.slice(y, {0, 0}, {4, 8}, {1, 1}, "q");
  const Program program =
      partition(graph, propagate(graph, mesh_of("d=2"), {shard_tensor("x", "P(\"d\")")}));
  EXPECT_THAT(lower_exchanges(program), testing::ElementsAre("halo y [@d~4(+0:+0), *]"));
}

TEST(InPlace, AnElementWiseUpdateTakesThePlaceOfItsVariable) {
  Graph graph;
  Builder b(graph);
  const ValueId w = b.variable("w", f32({8}), Initializer::constant(1));
  const ValueId g = b.input("g", f32({8}));
  graph.set_next(w, b.sub(w, g, "w_next"));
  const Compiled compiled = compile(graph, mesh_of("d=2"), {shard_tensor("w", "P(\"d\")")});
  for (const Register& reg : compiled.tasks.registers)
    if (reg.name == "w_next") {
      EXPECT_EQ(reg.storage, Register::Storage::kVariable);
    }
}

TEST(InPlace, AVariableThatIsReadAfterItsUpdateIsCopiedAtTheEnd) {
  Graph graph;
  Builder b(graph);
  const ValueId w = b.variable("w", f32({8}), Initializer::constant(1));
  const ValueId next = b.mul_scalar(w, 2.0, "w_next");
  graph.set_next(w, next);
  graph.add_output("old", b.add(w, next, "old"));
  const Compiled compiled = compile(graph, mesh_of("d=1"), {});
  std::map<std::string, Register::Storage> storage;
  for (const Register& reg : compiled.tasks.registers) storage[reg.name] = reg.storage;
  EXPECT_EQ(storage.at("w_next"), Register::Storage::kArena);
  EXPECT_EQ(storage.at("w_next kept as w"), Register::Storage::kVariable);
}

// ---- found by fuzzing ----

/// Names of the kernel steps, in order.
std::vector<std::string> steps(const Compiled& compiled) {
  std::vector<std::string> names;
  for (const Task& task : compiled.tasks.tasks)
    for (const KernelStep& step : task.steps) names.push_back(step.op);
  return names;
}

TEST(InPlace, TwoVariablesThatTradePlacesAreKeptBeforeEitherIsWritten) {
  Graph graph;
  Builder b(graph);
  const ValueId v = b.variable("v", f32({4}), Initializer::constant(1));
  const ValueId w = b.variable("w", f32({4}), Initializer::constant(2));
  graph.set_next(v, w);
  graph.set_next(w, v);
  // v is kept apart; w is then copied into v, and what v was into w.
  EXPECT_THAT(steps(compile(graph, mesh_of("d=2"), {})),
              testing::ElementsAre("v.before", "w.before", "w.next"));
}

TEST(InPlace, TheOldValueThatIsHandedOutIsKeptBeforeItsVariableIsWritten) {
  Graph graph;
  Builder b(graph);
  const ValueId w = b.variable("w", f32({4}), Initializer::constant(1));
  graph.set_next(w, b.mul_scalar(w, 2.0, "doubled"));
  graph.add_output("before", w);
  EXPECT_THAT(steps(compile(graph, mesh_of("d=1"), {})),
              testing::ElementsAre("doubled", "w.before", "w.next"));
}

TEST(InPlace, AVariableThatBecomesTheOldValueOfAnotherGetsItBeforeTheUpdate) {
  Graph graph;
  Builder b(graph);
  const ValueId w = b.variable("w", f32({4}), Initializer::constant(1));
  const ValueId last = b.variable("last", f32({4}), Initializer::constant(0));
  graph.set_next(w, b.mul_scalar(w, 2.0, "doubled"));
  graph.set_next(last, w);
  // The old w is copied into `last` before w is written over.
  EXPECT_THAT(steps(compile(graph, mesh_of("d=1"), {})),
              testing::ElementsAre("doubled", "w.before", "w.next"));
}

TEST(Tasks, AValueWithTwoOutputNamesIsFetchedOnce) {
  Graph graph;
  Builder b(graph);
  const ValueId y = b.unary("tanh", b.input("x", f32({4})), "y");
  graph.add_output("first", y);
  graph.add_output("second", y);
  const Compiled compiled = compile(graph, mesh_of("d=2"), {});
  EXPECT_EQ(compiled.tasks.tasks.back().inputs.size(), 1u);
  EXPECT_EQ(compiled.tasks.results.size(), 2u);
}

TEST(Partition, AMarkOnALinearOpMakesAddendsOfAWholeTensor) {
  Graph graph;
  Builder b(graph);
  b.unary("neg", b.input("x", f32({4})), "y");
  const Program program =
      partition(graph, propagate(graph, mesh_of("d=2"), {shard_op("y", "[d: Partial(sum)]")}));
  EXPECT_THAT(lower_exchanges(program), testing::ElementsAre("slice x [*] {partial sum: d}"));
}

TEST(MicroBatches, AreFedToAProgramWithoutOps) {
  Graph graph;
  Builder b(graph);
  graph.add_output("x", b.input("x", f32({4})));
  const Compiled compiled = compile(graph, Plan{.meshes = one_mesh(mesh_of("d=2")),
                                                .micro_batches = 2,
                                                .marks = {shard_tensor("x", "P(\"d\")")}});
  EXPECT_EQ(compiled.tasks.inputs.size(), 2u);
}

/// What the user is told about `graph` in micro-batches; "" when it compiles.
std::string refusal(const Graph& graph, const std::vector<Mark>& marks, int64_t micro_batches) {
  try {
    compile(
        graph,
        Plan{.meshes = one_mesh(mesh_of("d=2")), .micro_batches = micro_batches, .marks = marks});
    return "";
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    return error.what_happened();
  }
}

TEST(MicroBatches, DivideByThemselvesAndNotByMarks) {
  Graph graph;
  Builder b(graph);
  graph.add_output("y", b.unary("neg", b.input("x", f32({8, 4})), "y"));
  EXPECT_EQ(refusal(graph, {shard_tensor("x", "P((\"mb\",\"d\"))")}, 2),
            "mark 'x' (code) divides by micro-batches itself");
}

TEST(MicroBatches, CannotMakeTheNextValueOfAVariable) {
  Graph graph;
  Builder b(graph);
  const ValueId w = b.variable("w", f32({4}), Initializer::constant(1));
  graph.set_next(w, b.unary("tanh", b.input("x", f32({4})), "y"));
  EXPECT_EQ(refusal(graph, {}, 2),
            "variable 'w' is kept once a step, and its next value is made by micro-batch");
}

TEST(MicroBatches, OfOneDimAreNotThoseOfAnother) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({6, 6}));
  b.dot(x, x, "ab,ba->", "y");
  EXPECT_THAT(refusal(graph, {}, 3), testing::StartsWith("'x' is needed by micro-batch"));
}

TEST(MicroBatches, DoNotCutWhatTheyDoNotDivide) {
  Graph graph;
  Builder b(graph);
  // [6] -> [2, 3] may be cut in two: three micro-batches are no whole number of parts.
  b.reshape(b.input("x", f32({6})), {2, 3}, "y");
  EXPECT_THAT(refusal(graph, {shard_tensor("x", "P(\"d\")")}, 3),
              testing::StartsWith("'x' is needed for the whole batch at once"));
  EXPECT_EQ(refusal(graph, {shard_tensor("x", "P(\"d\")")}, 2), "");
}

TEST(InPlace, ACopyIsNamedAfterTheValueThatItHolds) {
  Graph graph;
  Builder b(graph);
  const ValueId a = b.input("a", f32({4}));
  const ValueId other = b.input("m.next", f32({4}));  // not the next value of m
  graph.set_next(b.variable("m", f32({4}), Initializer::constant(0)), a);
  graph.set_next(b.variable("w", f32({4}), Initializer::constant(0)), other);
  std::vector<std::string> names;
  for (const Register& reg : compile(graph, mesh_of("d=1"), {}).tasks.registers)
    names.push_back(reg.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"a kept as m", "m.next kept as w"}));
}

TEST(Arena, AChainOfElementWiseOpsUsesOnePlace) {
  Graph graph;
  Builder b(graph);
  ValueId x = b.input("x", f32({1024}));
  for (int i = 0; i < 10; ++i) x = b.unary("tanh", x);
  graph.add_output("y", x);
  const Compiled compiled = compile(graph, mesh_of("d=1"), {});
  EXPECT_EQ(compiled.tasks.arenas.front(), Bytes(4096));
  EXPECT_EQ(compiled.arenas.front().live_bound, compiled.arenas.front().size);
}

TEST(Arena, WhatIsSentIsWrittenOverItsOperand) {
  Graph graph;
  Builder b(graph);
  const ValueId sums = b.reduce_sum(b.input("x", f32({8, 1024})), {0}, "sums");
  graph.add_output("scaled", b.mul_scalar(sums, 2, "scaled"));
  const Compiled compiled = compile(graph, mesh_of("d=2"), {shard_tensor("x", "P(\"d\")")});
  std::map<std::string, int64_t> offsets;
  for (const Register& reg : compiled.tasks.registers) offsets[reg.name] = reg.offset;
  EXPECT_THAT(offsets, testing::SizeIs(4));  // the all-reduce gives scaled [*]
  EXPECT_EQ(offsets.at("scaled"), offsets.at("sums"));
}

TEST(Arena, IsTheMostBytesAliveAtOnceOfAChainAndItsGradient) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({64, 64}));
  ValueId h = x;
  for (int i = 0; i < 6; ++i) h = b.unary("tanh", b.dot(h, x, "mk,kn->mn"));
  const ValueId loss = b.reduce_sum(h, {0, 1}, "loss");
  graph.add_output("loss", loss);
  graph.add_output("dx", differentiate(b, loss, {x})[0]);
  const Compiled compiled = compile(graph, mesh_of("d=1"), {});
  EXPECT_EQ(compiled.arenas.front().size, compiled.arenas.front().live_bound);
}

TEST(Compile, GivesTheSameTaskGraphTwice) {
  const Graph graph = two_matmuls();
  const std::vector<Mark> marks = {shard_op("Y0", "[P(\"d\"), P()]")};
  EXPECT_EQ(to_text(compile(graph, mesh_of("d=2"), marks).tasks),
            to_text(compile(graph, mesh_of("d=2"), marks).tasks));
}

TEST(Compile, DumpsEveryPass) {
  std::vector<std::string> passes;
  compile(two_matmuls(), mesh_of("d=2"), {},
          {.dump = [&](std::string_view pass, const std::string& text) {
            EXPECT_FALSE(text.empty());
            passes.emplace_back(pass);
          }});
  EXPECT_THAT(passes,
              testing::ElementsAre("serial", "fold", "algebra", "cse", "dead-code", "recompute",
                                   "propagate", "halos", "sum-chains", "partition", "in-place",
                                   "order", "collective-matmul", "buckets", "combine", "copies",
                                   "offload", "prefetch", "arena", "tasks", "check", "placements"));
  EXPECT_THAT(pass_names(), testing::ElementsAreArray(passes));
}

TEST(Compile, LeavesOutTheOptionalPassesThatAreDisabled) {
  const std::vector<std::string> optional = {
      "fold",       "algebra",           "cse",     "dead-code", "recompute", "halos",
      "sum-chains", "collective-matmul", "buckets", "combine",   "prefetch",  "placements"};
  const auto compiled_without = [](const std::vector<std::string>& disabled) {
    return compile(two_matmuls(),
                   Plan{.meshes = one_mesh(mesh_of("d=2")), .disabled_passes = disabled});
  };
  const Compiled compiled = compiled_without(optional);
  EXPECT_EQ(compiled.passes.size() + optional.size(), pass_names().size());
  for (const PassReport& pass : compiled.passes)
    EXPECT_THAT(optional, testing::Not(testing::Contains(pass.name)));
  for (const char* name : {"partition", "no-such-pass"})
    EXPECT_THROW(compiled_without({name}), UserError) << name;
}

/// The message of an error in compiling two_matmuls with a rule that omits the sum of Y1.
std::string fault_of_a_forgotten_sum(bool verify_passes) {
  const auto forgets = [](std::string_view kind, const OpView& op) {
    ShardingRule rule = catalogue_rule(kind, op);
    if (op.name == "Y1")
      for (Factor& factor : rule.factors)
        if (factor.kind == FactorKind::kReduction) factor.kind = FactorKind::kParallel;
    return rule;
  };
  try {
    compile(two_matmuls(), mesh_of("d=2"), {shard_op("Y0", "[P(), P(None,\"d\")]")},
            {.dump = {}, .rules = forgets, .verify_passes = verify_passes});
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

TEST(Compile, VerifiesTheTaskGraphAfterEachPassWhereThatIsAskedFor) {
  // Partition makes the fault; the in-place pass is the first after which a program is complete.
  EXPECT_THAT(fault_of_a_forgotten_sum(true),
              testing::HasSubstr("after the compiler pass 'in-place': "));
  EXPECT_THAT(fault_of_a_forgotten_sum(false),
              testing::Not(testing::HasSubstr("after the compiler pass")));
  EXPECT_THAT(fault_of_a_forgotten_sum(false), testing::HasSubstr("Y1"));
}

TEST(Compile, AProgramWithoutAFaultPassesTheVerificationOfPasses) {
  for (const int64_t micro_batches : {1, 2})
    compile(two_matmuls(),
            Plan{.meshes = one_mesh(mesh_of("d=2")),
                 .micro_batches = micro_batches,
                 .marks = {shard_tensor("X", "P(\"d\")")}},
            {.dump = {}, .verify_passes = true});
}

}  // namespace
}  // namespace tessera
