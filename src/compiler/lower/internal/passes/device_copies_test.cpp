// Where copies are in a program, and which register is in which memory.
#include "compiler/lower/internal/passes/device_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing/error.h"
#include "base/testing/tensor_types.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NamedMesh named_mesh(const std::string& name, std::vector<Rank> ranks, DeviceKind device) {
  const auto size = static_cast<int64_t>(ranks.size());
  return {
      name,
      std::make_shared<const Mesh>(Shape{size}, std::vector<std::string>{"dp"}, std::move(ranks)),
      device};
}

/// y = x w on the first mesh, loss = sum of tanh(y) on the last; w is trained.
Graph device_copies_two_stages() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({4, 8}));
  const ValueId w = b.variable("w", f32({8, 6}), Initializer::normal(0, 1));
  const ValueId y = b.dot(x, w, "mk,kn->mn", "first.y");
  const ValueId z = b.unary("tanh", y, "last.z");
  const ValueId loss = b.reduce_sum(z, {0, 1}, "last.loss");
  graph.add_output("loss", loss);
  const auto gradients = differentiate(b, loss, {w});
  const ValueId change = b.mul_scalar(gradients.front(), 0.1, "first.change");
  graph.set_next(w, b.sub(w, change, "first.next"));
  return graph;
}

Compiled device_copies_compiled(DeviceKind first, DeviceKind last,
                                std::vector<Rank> ranks = {0, 1}) {
  return compile(
      device_copies_two_stages(),
      {named_mesh("first", {ranks.front()}, first), named_mesh("last", {ranks.back()}, last)},
      {stage("first.*", "first"), stage("last.*", "last")});
}

/// "exchange last.z <- first.y": the tasks between kernels, with what they read.
std::vector<std::string> moves(const TaskGraph& graph) {
  std::vector<std::string> list;
  for (TaskId id : graph.order) {
    const Task& task = graph.tasks[id];
    if (task.kind != Task::Kind::kExchange && task.kind != Task::Kind::kCopy) continue;
    const auto name = [&](RegisterIndex reg) { return graph.registers[reg].name; };
    list.push_back(std::string(to_text(task.kind)) + " " + name(task.outputs[0]) + " <- " +
                   name(task.inputs[0]));
  }
  return list;
}

TEST(DeviceCopies, NothingIsCopiedBetweenHosts) {
  const TaskGraph graph = device_copies_compiled(DeviceKind::kHost, DeviceKind::kHost).tasks;
  EXPECT_EQ(graph.meshes.size(), 2U);
  for (const std::string& move : moves(graph)) EXPECT_THAT(move, testing::Not(HasSubstr("copy")));
}

TEST(DeviceCopies, BetweenTwoDevicesStandCopyExchangeCopy) {
  const TaskGraph graph = device_copies_compiled(DeviceKind::kFake, DeviceKind::kFake).tasks;
  // x in; y out, over, and in; the gradient of y back; the loss out.
  EXPECT_THAT(moves(graph),
              ElementsAre("copy x <- x on host",  //
                          "copy first.y on host <- first.y",
                          "exchange first.y [*, *] on last on host <- first.y on host",     //
                          "copy first.y [*, *] on last <- first.y [*, *] on last on host",  //
                          testing::StartsWith("copy "), testing::StartsWith("exchange "),
                          testing::StartsWith("copy "), "copy last.loss on host <- last.loss"));
}

TEST(DeviceCopies, AHostTakesAndGivesWithoutACopy) {
  const TaskGraph graph = device_copies_compiled(DeviceKind::kHost, DeviceKind::kFake).tasks;
  EXPECT_EQ(moves(graph).front(), "exchange first.y [*, *] on last on host <- first.y");
  EXPECT_EQ(moves(graph)[1], "copy first.y [*, *] on last <- first.y [*, *] on last on host");
}

TEST(DeviceCopies, KernelsTouchTheDeviceAndTheThreadOfTheRankTheHost) {
  const TaskGraph graph = device_copies_compiled(DeviceKind::kFake, DeviceKind::kFake).tasks;
  EXPECT_THAT(graph.devices, ElementsAre(DeviceKind::kFake, DeviceKind::kFake, DeviceKind::kHost,
                                         DeviceKind::kHost));
  for (const Task& task : graph.tasks)
    for (const KernelStep& step : task.steps)
      for (const RegisterList& list : {step.inputs, step.outputs})
        for (RegisterIndex reg : list)
          EXPECT_EQ(device_of(graph, graph.registers[reg].mesh), DeviceKind::kFake) << step.op;
  for (const TaskInput& input : graph.inputs)
    EXPECT_EQ(device_of(graph, graph.registers[input.value].mesh), DeviceKind::kHost);
  for (const TaskVariable& variable : graph.variables)
    EXPECT_EQ(device_of(graph, graph.registers[variable.value].mesh), DeviceKind::kFake);
}

TEST(DeviceCopies, CopiesAndKernelsAreOnStreamsOfTheirOwn) {
  const TaskGraph graph = device_copies_compiled(DeviceKind::kFake, DeviceKind::kHost).tasks;
  for (const Task& task : graph.tasks) {
    const TaskStream stream = stream_of(graph, task);
    if (task.kind == Task::Kind::kCompute)
      EXPECT_EQ(stream, task.mesh == MeshIndex(0) ? TaskStream::kCompute : TaskStream::kHost)
          << task.name;
    else if (task.kind == Task::Kind::kCopy)
      EXPECT_EQ(stream,
                task.name.text().ends_with(" on host") ? TaskStream::kCopyOut : TaskStream::kCopyIn)
          << task.name;
    else
      EXPECT_EQ(stream, TaskStream::kHost) << task.name;
  }
}

/// w is read by each micro-batch, on the device and, over the hosts, by the other stage.
TEST(DeviceCopies, WhatEachMicroBatchReadsIsCopiedOnceAStep) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 8}));
  const ValueId w = b.variable("w", f32({8, 8}), Initializer::normal(0, 1));
  const ValueId y = b.dot(x, w, "mk,kn->mn", "first.y");
  const ValueId z = b.dot(y, w, "mk,kn->mn", "last.z");
  graph.add_output("sum", b.reduce_sum(z, {0, 1}, "last.sum"));
  for (const int64_t micro_batches : {2, 4}) {
    const Plan plan{.meshes = {named_mesh("first", {0}, DeviceKind::kFake),
                               named_mesh("last", {1}, DeviceKind::kFake)},
                    .micro_batches = micro_batches,
                    .marks = {stage("first.*", "first"), stage("last.*", "last")}};
    const TaskGraph tasks = compile(graph, plan, {.dump = {}, .verify_passes = true}).tasks;
    int copies_of_w = 0, copies_of_y = 0;
    for (const std::string& move : moves(tasks)) {
      copies_of_w += move.starts_with("copy w on host <- w");
      copies_of_y += move.starts_with("copy first.y");
    }
    EXPECT_EQ(copies_of_w, 1) << micro_batches << " micro-batches";
    EXPECT_EQ(copies_of_y, 2 * micro_batches) << "to the host of one stage, and from the other";
  }
}

TEST(DeviceCopies, AnInputThatNoKernelWantsStaysOnTheHost) {
  Graph graph;
  Builder b(graph);
  graph.add_output("same", b.input("x", f32({4})));
  const TaskGraph tasks = compile(graph, {named_mesh("all", {0}, DeviceKind::kFake)}, {}).tasks;
  EXPECT_THAT(moves(tasks), testing::IsEmpty());
  EXPECT_EQ(device_of(tasks, tasks.registers[tasks.inputs.front().value].mesh), DeviceKind::kHost);
}

TEST(DeviceCopies, ARankOnDevicesOfTwoKindsIsRefused) {
  EXPECT_THAT([] { device_copies_compiled(DeviceKind::kHost, DeviceKind::kFake, {0, 0}); },
              testing::ThrowsMessage<UserError>(HasSubstr(
                  "rank 0 is in mesh 'first' of devices host and in mesh 'last' of devices fake")));
}

/// Its next value comes over the hosts, while a kernel of the device reads the old one.
TEST(DeviceCopies, ACopyIntoAVariableWaitsForTheKernelsThatReadItsOldValue) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({4, 3}));
  const ValueId w = b.variable("w", f32({3, 3}), Initializer::normal(0, 1));
  graph.set_next(w, b.dot(x, x, "km,kn->mn", "products"));
  graph.add_output("sum", b.reduce_sum(w, {0, 1}, "sum"));
  TaskGraph tasks = compile(graph, {named_mesh("all", {0, 1}, DeviceKind::kFake)},
                            {shard_tensor("x", "P(\"dp\")")})
                        .tasks;
  const RegisterIndex old_value = tasks.variables.front().value;
  TaskId copy;
  for (TaskId id : tasks.order)
    if (const Task task = tasks.tasks[id];
        task.kind == Task::Kind::kCopy && tasks.registers[task.outputs.front()].variable == 0)
      copy = id;
  ASSERT_FALSE(copy.is_none());
  EXPECT_THAT(tasks.tasks.overwrites(copy), testing::Contains(old_value));
  tasks.tasks.overwrites(copy).clear();
  EXPECT_THAT([&] { check(tasks); },
              testing::ThrowsMessage<InternalError>(HasSubstr("other ranks or streams read")));
}

TEST(DeviceCopies, ARegisterThatIsCopiedThatSharesItsBytesIsFound) {
  TaskGraph graph = device_copies_compiled(DeviceKind::kFake, DeviceKind::kFake).tasks;
  const auto offset_of = [&](const std::string& name) -> int64_t& {
    const auto all = graph.registers.indices();
    return graph.registers.offset(*std::find_if(all.begin(), all.end(), [&](RegisterIndex reg) {
      return graph.registers[reg].name == name;
    }));
  };
  offset_of("last.z") = offset_of("first.y [*, *] on last");
  EXPECT_THAT([&] { check(graph); },
              testing::ThrowsMessage<InternalError>(HasSubstr("is copied beside the order")));
}

}  // namespace
}  // namespace tessera
