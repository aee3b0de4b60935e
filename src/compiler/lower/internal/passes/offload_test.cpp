// Where the copies of offloaded variables are in a program, and which bytes the variables share.
#include "compiler/lower/internal/passes/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"
#include "task_graph/tasks/check.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kBytes = 64 * 4;  // of each variable

/// y = x + a, + b, + c, each with a momentum; loss = the sum.
Graph three_parameters() {
  Graph graph;
  Builder b(graph);
  const TensorType type{DType::kF32, {64}};
  const std::vector<std::string> names = {"a", "b", "c"};
  ValueId y = b.input("x", type);
  std::vector<ValueId> parameters;
  for (const std::string& name : names) {
    parameters.push_back(b.variable(name, type, Initializer::constant(0)));
    y = b.mul(y, parameters.back(), name + ".product");
  }
  const ValueId loss = b.reduce_sum(y, {0}, "loss");
  graph.add_output("loss_value", loss);
  const auto gradients = differentiate(b, loss, parameters);
  for (size_t i = 0; i < names.size(); ++i) {
    const ValueId momentum = graph.add_variable(
        names[i] + ".momentum", type, Initializer::constant(0), false, {names[i], "optimizer"});
    const ValueId next = b.add(momentum, gradients[i], names[i] + ".sum");
    graph.set_next(momentum, next);
    graph.set_next(parameters[i], b.sub(parameters[i], next, names[i] + ".next"));
  }
  return graph;
}

Compiled offloaded(Bytes window) {
  Plan plan;
  plan.offload.kind = Offload::Kind::kState;
  plan.offload_window = window;
  plan.tasks.kind = TaskGranularity::Kind::kOp;
  return compile(three_parameters(), plan);
}

/// "copy TO" and the ops of the optimizer, in the order list.
std::vector<std::string> order_of(const TaskGraph& graph) {
  std::vector<std::string> list;
  for (const TaskId id : graph.order) {
    const Task& task = graph.tasks[id];
    if (task.kind == Task::Kind::kCopy) list.push_back(task.name);
    if (task.kind == Task::Kind::kCompute && task.name.text().ends_with(".sum"))
      list.push_back(task.name);
  }
  return list;
}

TEST(Offload, ThatFitsIntoTheWindowIsCopiedAtTheBeginningOfTheStep) {
  const Compiled compiled = offloaded(Bytes(1 << 20));
  EXPECT_THAT(order_of(compiled.tasks),
              ElementsAre("copy a.momentum", "copy b.momentum", "copy c.momentum",  //
                          "a.sum", "copy a.sum in a file", "b.sum", "copy b.sum in a file", "c.sum",
                          "copy c.sum in a file"));
}

TEST(Offload, OfWhatDoesNotFitTakesTheBytesOfThoseThatWereWrittenBack) {
  const Compiled compiled = offloaded(Bytes(2 * kBytes));
  // c takes the place of a when a is used no more, which is after the update of the parameter.
  EXPECT_THAT(order_of(compiled.tasks),
              ElementsAre("copy a.momentum", "copy b.momentum",                //
                          "a.sum", "copy a.sum in a file", "copy c.momentum",  //
                          "b.sum", "copy b.sum in a file", "c.sum", "copy c.sum in a file"));
  std::map<std::string, int64_t> offsets;
  for (const Register& reg : compiled.tasks.registers) offsets[reg.name.text()] = reg.offset;
  EXPECT_EQ(offsets.at("c.momentum"), offsets.at("a.momentum"));
  EXPECT_EQ(offsets.at("b.momentum"), offsets.at("a.momentum") + kBytes);
  EXPECT_EQ(offsets.at("a.sum"), offsets.at("a.momentum")) << "in place";
}

TEST(Offload, CopiesAreOnTwoStreamsBesideTheKernels) {
  const TaskGraph graph = offloaded(Bytes(0)).tasks;
  for (const Task& task : graph.tasks) {
    const bool is_into_file = task.name.text().ends_with(" in a file");
    EXPECT_EQ(stream_of(graph, task), task.kind != Task::Kind::kCopy ? TaskStream::kHost
                                      : is_into_file                 ? TaskStream::kCopyOut
                                                                     : TaskStream::kCopyIn)
        << task.name;
  }
}

TEST(Offload, TakesTheArenaOfItsWindowAndNoMore) {
  Plan plan;
  plan.tasks.kind = TaskGranularity::Kind::kOp;
  const Bytes arena = compile(three_parameters(), plan).tasks.arenas[MeshIndex(0)];
  EXPECT_EQ(offloaded(Bytes(0)).tasks.arenas[MeshIndex(0)], arena + Bytes(kBytes));
  EXPECT_EQ(offloaded(Bytes(1 << 20)).tasks.arenas[MeshIndex(0)], arena + Bytes(3 * kBytes));
}

TEST(Offload, IsRefusedOnMeshesOfDevices) {
  Plan plan;
  plan.meshes = plan.placed();
  plan.meshes.front().device = DeviceKind::kFake;
  plan.offload.kind = Offload::Kind::kState;
  EXPECT_EQ(error_testing::message_of([&] { compile(three_parameters(), plan); }),
            "78 the plan offloads 'a.momentum', which is on a mesh of devices of the kind fake\n"
            "  why: offload copies between the memory of hosts and a file\n"
            "  fix: remove offload from the plan, or put the op on a mesh of the device kind host");
}

std::string offence_of(const TaskGraph& graph) {
  try {
    check(graph);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

/// The task with this name.
TaskId task_of(const TaskGraph& graph, const std::string& name) {
  for (TaskId task : graph.tasks.indices())
    if (graph.tasks[task].name == name) return task;
  throw InternalError("no task of that name");
}

TEST(Offload, ACopyIntoTheBytesOfAnotherVariableWaitsForIt) {
  TaskGraph graph = offloaded(Bytes(0)).tasks;
  EXPECT_EQ(offence_of(graph), "");
  graph.tasks.overwrites(task_of(graph, "copy b.momentum")).clear();
  EXPECT_THAT(offence_of(graph),
              HasSubstr("'b.momentum' shares bytes with 'a.sum', and one of them is copied beside "
                        "the order"));
}

TEST(Offload, TextSaysWhatIsInMemoryAtOnce) {
  std::string text;
  Plan plan;
  plan.offload.kind = Offload::Kind::kState;
  plan.offload_window = Bytes(0);
  compile(three_parameters(), plan, {.dump = [&](std::string_view pass, const std::string& made) {
            if (pass == "offload") text = made;
          }});
  EXPECT_THAT(text, testing::StartsWith("768 B of state in a file, 256 B in memory at once\n"
                                        "a.momentum = copy(a.momentum in a file)\n"
                                        "a.sum in a file = copy(a.sum)\n"));
}

}  // namespace
}  // namespace tessera
