// Where tasks end, as the plan decides.
#include "compiler/lower/internal/make_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text/text.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;
using Kind = TaskGranularity::Kind;

/// Three layers of a product and a tanh, with their backward and update.
Graph three_layers() {
  Graph graph;
  Builder b(graph);
  ValueId h = b.input("x", {DType::kF32, {8, 4}});
  std::vector<ValueId> weights;
  for (const std::string name : {"a", "b", "c"}) {
    const auto scope = b.scope(name);
    weights.push_back(b.variable("w", {DType::kF32, {4, 4}}, Initializer::normal(0, 1)));
    h = b.unary("tanh", b.dot(h, weights.back(), "mk,kn->mn", "dot"), "tanh");
  }
  const ValueId loss = b.reduce_sum(h, {0, 1}, "loss");
  graph.add_output("loss", loss);
  const std::vector<ValueId> gradients = differentiate(b, loss, weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string& name = graph.value(weights[i]).name;
    b.derive(Role::kOptimizer, {name, "optimizer"});
    graph.set_next(weights[i], b.sub(weights[i], gradients[i], name + ".next"));
  }
  return graph;
}

/// The ops of each compute task of a role, in program order.
std::vector<std::vector<std::string>> make_tasks_tasks_of(const TaskGranularity& tasks, Role role) {
  // Without the passes that would remove ops of the backward.
  const Plan plan{.tasks = tasks, .disabled_passes = {"fold", "algebra", "cse", "dead-code"}};
  std::vector<std::vector<std::string>> lists;
  for (const Task& task : compile(three_layers(), plan).tasks.tasks) {
    if (task.kind != Task::Kind::kCompute || task.role != role) continue;
    EXPECT_EQ(task.name, task.steps.front().op);
    lists.emplace_back();
    for (const KernelStep& step : task.steps) lists.back().push_back(step.op);
  }
  return lists;
}

TEST(TaskGranularity, OfRolesIsOneTaskForEachRoleWhereNothingIsExchanged) {
  EXPECT_THAT(
      make_tasks_tasks_of({Kind::kRole}, Role::kForward),
      ElementsAre(ElementsAre("a.dot", "a.tanh", "b.dot", "b.tanh", "c.dot", "c.tanh", "loss")));
  EXPECT_EQ(make_tasks_tasks_of({Kind::kRole}, Role::kBackward).size(), 1u);
  EXPECT_EQ(make_tasks_tasks_of({Kind::kRole}, Role::kOptimizer).size(), 1u);
}

TEST(TaskGranularity, OfLayersEndsTasksWhereALayerOfTheModelEnds) {
  EXPECT_THAT(make_tasks_tasks_of({Kind::kLayer}, Role::kForward),
              ElementsAre(ElementsAre("a.dot", "a.tanh"), ElementsAre("b.dot", "b.tanh"),
                          ElementsAre("c.dot", "c.tanh"), ElementsAre("loss")));
  EXPECT_THAT(
      make_tasks_tasks_of({Kind::kLayer}, Role::kOptimizer),
      ElementsAre(ElementsAre("a.w.next"), ElementsAre("b.w.next"), ElementsAre("c.w.next")));
  // The gradient of the loss, then the layers from the last to the first
  std::vector<char> layers;
  for (const std::vector<std::string>& ops : make_tasks_tasks_of({Kind::kLayer}, Role::kBackward)) {
    layers.push_back(ops.front().front());
    for (const std::string& op : ops) EXPECT_EQ(op.front(), ops.front().front()) << op;
  }
  EXPECT_THAT(layers, ElementsAre('l', 'c', 'b', 'a'));
}

TEST(TaskGranularity, OfOpsMakesEachKernelATask) {
  for (Role role : {Role::kForward, Role::kBackward, Role::kOptimizer}) {
    std::vector<std::string> ops;
    for (const std::vector<std::string>& task : make_tasks_tasks_of({Kind::kOp}, role)) {
      ASSERT_EQ(task.size(), 1u);
      ops.push_back(task.front());
    }
    EXPECT_EQ(
        ops,
        make_tasks_tasks_of({Kind::kRole}, role).front());  // the same kernels in the same order
  }
}

TEST(TaskGranularity, OfPatternsEndsTasksWhereOpsStopToMatch) {
  EXPECT_THAT(make_tasks_tasks_of({Kind::kPatterns, {"b.*"}}, Role::kForward),
              ElementsAre(ElementsAre("a.dot", "a.tanh"), ElementsAre("b.dot", "b.tanh"),
                          ElementsAre("c.dot", "c.tanh", "loss")));
  EXPECT_THAT(make_tasks_tasks_of({Kind::kPatterns, {"*.dot", "c.*"}}, Role::kForward),
              ElementsAre(ElementsAre("a.dot"), ElementsAre("a.tanh"), ElementsAre("b.dot"),
                          ElementsAre("b.tanh"), ElementsAre("c.dot"), ElementsAre("c.tanh"),
                          ElementsAre("loss")));
}

TEST(Overwrites, OneTaskWaitsForTheReadersOfARegisterAndTheLaterOnesOfItsStreamRelyOnIt) {
  Plan plan{.tasks = {Kind::kOp}};
  plan.meshes = one_mesh(std::make_shared<Mesh>(parse_mesh("dp=2")));
  plan.marks = {shard_tensor("x", "P(\"dp\")")};
  const TaskGraph graph = compile(three_layers(), plan).tasks;
  // By register and whether its producer comes before: those that wait and do not read it.
  std::map<std::pair<RegisterIndex, bool>, std::vector<std::string>> waiting;
  std::set<RegisterIndex> filled;
  for (TaskId id : graph.order) {
    const Task& task = graph.tasks[id];
    for (RegisterIndex reg : task.overwrites)
      if (task.issue_after.is_none() && std::ranges::count(graph.registers[reg].consumers, id) == 0)
        waiting[{reg, filled.contains(reg)}].push_back(task.name);
    filled.insert(task.outputs.begin(), task.outputs.end());
  }
  EXPECT_FALSE(waiting.empty()) << "the other rank reads what is overwritten";
  for (const auto& [reg, tasks] : waiting)
    EXPECT_THAT(tasks, SizeIs(1)) << graph.registers[reg.first].name;
}

}  // namespace
}  // namespace tessera
