// Ops of which the operands have windows, compiled: which exchanges bring the halos, and faults
// planted into them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/partition.h"
#include "compiler/placement_check/placement_check.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kWindowsRows = 12;

MeshPtr three() {
  return std::make_shared<const Mesh>(parse_mesh("h=3"));
}

/// A moving sum: x padded by a row on either side, three slices of that added up; then every other
/// row of it.
Graph moving_sum() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {kWindowsRows, 2}});
  const ValueId p = b.pad(x, {1, 0}, {kWindowsRows + 2, 2}, 0, "p");
  const ValueId before = b.slice(p, {0, 0}, {kWindowsRows, 2}, {1, 1}, "before");
  const ValueId at = b.slice(p, {1, 0}, {kWindowsRows + 1, 2}, {1, 1}, "at");
  const ValueId after = b.slice(p, {2, 0}, {kWindowsRows + 2, 2}, {1, 1}, "after");
  const ValueId pair = b.add(before, at, "pair");
  const ValueId sum = b.add(pair, after, "sum");
  graph.add_output("y", b.slice(sum, {0, 0}, {kWindowsRows, 2}, {2, 1}, "y"));
  return graph;
}

const std::vector<Mark> kWindowsByRows = {shard_tensor("x", "P(\"h\")")};

TaskGraph windows_compiled(const Graph& graph, const std::vector<Mark>& marks = kWindowsByRows) {
  const Plan plan{.meshes = one_mesh(three()), .halos = HaloForm::kExchange, .marks = marks};
  return compile(graph, plan).tasks;
}

/// "halo p [..]" of every exchange.
std::vector<std::string> exchanges_of(const TaskGraph& tasks) {
  std::vector<std::string> texts;
  for (const Task& task : tasks.tasks)
    for (size_t part = 0; part < task.parts.size(); ++part)
      texts.push_back(std::string(to_text(task.parts[part].exchange.kind)) + " " +
                      tasks.registers[task.outputs[part]].name);
  return texts;
}

TEST(WindowsInPrograms, HalosAreTheOnlyExchanges) {
  // p has 14 rows, the slices 12: each needs some rows of its neighbours' parts. y has 6, rows 0,
  // 2, .. 10 of sum: everyone has its own.
  EXPECT_THAT(exchanges_of(windows_compiled(moving_sum())),
              ElementsAre("halo x [@h~14(-1:-1), *]", "halo p [@h~12(+0:+0), *]",
                          "halo p [@h~12(+1:+1), *]", "halo p [@h~12(+2:+2), *]",
                          "slice sum [@h~6(*2+0:+0), *]"));
}

TEST(WindowsInPrograms, TheArenaHoldsTheLargestPart) {
  // x of 12 rows is divided into 4, 4, 4; of p's 14 rows, 5, 5 and 4, the first needs rows 0 to 3,
  // the second 4 to 8 (5 of them), the last 9 to 11.
  const TaskGraph tasks = windows_compiled(moving_sum());
  const auto& registers = tasks.registers.forms();
  const auto x = std::find_if(registers.begin(), registers.end(), [](const RegisterForm& reg) {
    return reg.name == "x [@h~14(-1:-1), *]";
  });
  ASSERT_NE(x, registers.end());
  EXPECT_EQ(x->size.value(), 5 * 2 * 4);
}

// ---- planted faults ----

std::string windows_finding(const Graph& graph, const TaskGraph& tasks) {
  try {
    check_placements(graph, tasks, 1);
    return "";
  } catch (const InternalError& error) {
    return error.what();
  }
}

/// The register called `name` gets another window, and the exchange that fills it, too.
TaskGraph with_window(TaskGraph tasks, std::string_view name, const Window& window) {
  for (TaskForm& task : tasks.tasks.forms()) {
    if (task.kind != Task::Kind::kExchange) continue;
    RegisterForm& target = tasks.registers.forms()[task.outputs.front()];
    if (target.name != name) continue;
    target.attr.dims[0].windows = {window};
    task.parts[0].exchange.to = target.attr;
  }
  return tasks;
}

TEST(WindowsInPrograms, FindsAHaloARowShortOrShifted) {
  const Graph graph = moving_sum();
  const TaskGraph tasks = windows_compiled(graph);
  EXPECT_EQ(windows_finding(graph, tasks), "");
  const char* needs =
      "'y' needs of dim 0 of input 0 the window (*2+0:+0) of its part of factor d0, and it holds "
      "the window ";
  const std::string name = "sum [@h~6(*2+0:+0), *]";
  EXPECT_THAT(windows_finding(graph, with_window(tasks, name, {6, kWindowsRows, 2, 1, 0, -1})),
              HasSubstr(needs + std::string("(*2+0:-1)")));
  EXPECT_THAT(windows_finding(graph, with_window(tasks, name, {6, kWindowsRows, 2, 1, 1, 1})),
              HasSubstr(needs + std::string("(*2+1:+1)")));
  EXPECT_THAT(windows_finding(graph, with_window(tasks, "p [@h~12(+1:+1), *]",
                                                 {12, kWindowsRows + 2, 1, 1, 2, 2})),
              HasSubstr("input 0"));
}

TEST(WindowsInPrograms, FindsAPlainPartWhereAWindowIsNeeded) {
  const Graph graph = moving_sum();
  TaskGraph tasks = windows_compiled(graph);
  // y reads sum as it was made.
  RegisterFormIndex made;
  for (const TaskForm& task : tasks.tasks.forms())
    for (const KernelForm& step : task.steps)
      if (step.op == "sum") made = step.outputs.front();
  for (TaskForm& task : tasks.tasks.forms())
    for (KernelForm& step : task.steps)
      if (step.op == "y") step.inputs = {made};
  EXPECT_THAT(windows_finding(graph, tasks), HasSubstr("and it holds a plain part"));
}

TEST(WindowsInPrograms, FindsAnOffsetThatForgetsTheHalo) {
  const Graph graph = moving_sum();
  TaskGraph tasks = windows_compiled(graph);
  for (TaskForm& task : tasks.tasks.forms())
    for (KernelForm& step : task.steps)
      if (step.op == "p")
        // low of the whole, where only the first rank has padding in front
        step.call.change([](KernelCall& call) { call.ints[0] = 1; });
  EXPECT_THAT(windows_finding(graph, tasks),
              HasSubstr("op 'p' calls pad with 1 as parameter 0 at 1, where its operator has 0"));
}

// ---- chunks ----

/// Queries and keys side by side, as one product makes them, and what is done with each.
Graph two_in_one() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {kWindowsRows, 2, 6}});
  const ValueId both = b.reshape(x, {kWindowsRows, 12}, "both");
  const ValueId t = b.unary("tanh", both, "t");
  const ValueId q = b.slice(t, {0, 0}, {kWindowsRows, 6}, {1, 1}, "q");
  const ValueId k = b.slice(t, {0, 6}, {kWindowsRows, 12}, {1, 1}, "k");
  graph.add_output("y", b.mul(q, k, "y"));
  return graph;
}

TEST(ChunksInPrograms, NothingIsExchanged) {
  const Graph graph = two_in_one();
  const TaskGraph tasks = windows_compiled(graph, {shard_tensor("x", "Shard(2)")});
  EXPECT_THAT(exchanges_of(tasks), testing::IsEmpty());
  const auto& registers = tasks.registers.forms();
  const auto t = std::find_if(registers.begin(), registers.end(),
                              [](const RegisterForm& reg) { return reg.name == "t"; });
  ASSERT_NE(t, registers.end());
  EXPECT_EQ(to_text(t->type, t->attr), "f32[12, 12@h/2]");
  EXPECT_EQ(windows_finding(graph, tasks), "");
}

TEST(ChunksInPrograms, FindsAChunkThatIsTakenForAnother) {
  const Graph graph = two_in_one();
  TaskGraph tasks = windows_compiled(graph, {shard_tensor("x", "Shard(2)")});
  for (TaskForm& task : tasks.tasks.forms())
    for (KernelForm& step : task.steps)
      if (step.op == "k")  // of a part of four columns the keys are 2 and 3
        step.call.change([](KernelCall& call) { call.ints[1] = 0; });
  EXPECT_THAT(windows_finding(graph, tasks),
              HasSubstr("op 'k' calls slice with 0 as parameter 1 at 0, where its operator has 2"));
}

TEST(ChunksInPrograms, FindsAPlainPartWhereChunksAreNeeded) {
  const Graph graph = two_in_one();
  TaskGraph tasks = windows_compiled(graph, {shard_tensor("x", "Shard(2)")});
  for (RegisterForm& reg : tasks.registers.forms())
    if (reg.name == "both" || reg.name == "t") reg.attr.dims[1].chunks = 1;
  EXPECT_THAT(windows_finding(graph, tasks), HasSubstr("'both'"));
}

// ---- overlapping results ----

/// The moving sum without exchanges after x: each op before `sum` makes what the parts of sum need.
TEST(WindowsInPrograms, AHaloMayBeRecomputedInsteadOfExchanged) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {kWindowsRows, 2}});
  const ValueId t = b.unary("tanh", x, "t");
  graph.add_output("y", b.slice(t, {2, 0}, {kWindowsRows, 2}, {1, 1}, "y"));
  ShardedGraph sharded = propagate(graph, three(), kWindowsByRows);
  // tanh of the rows that the slice needs of t, in the place of tanh of the rows of x.
  const Window window{kWindowsRows - 2, kWindowsRows, 1, 1, 2, 2};
  sharded.ops[0].set_windows(sharded.rules[0], 0, {window});
  const Program program = partition(graph, sharded);
  std::vector<std::string> names;
  for (const Instruction& instruction : program.instructions)
    if (const ExchangeStep* step = instruction.exchange())
      names.push_back(std::string(to_text(step->kind())) + " " +
                      program.registers[step->target()].name);
    else
      names.push_back(instruction.kernel()->op);
  // The output is fetched with the placement that it has.
  EXPECT_THAT(names, ElementsAre("halo x [@h~10(+2:+2), *]", "t", "y"));
}

}  // namespace
}  // namespace tessera
