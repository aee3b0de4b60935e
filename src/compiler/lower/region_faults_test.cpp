// Faults that are planted into what a While or an If runs, and found before anything runs. Each is
// planted wherever it fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "compiler/lower/lower.h"
#include "compiler/placement_check/placement_check.h"
#include "ir/ops/control/control.h"
#include "task_graph/tasks/testing/faults.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Case {
  Graph graph;
  TaskGraph tasks;
  int64_t micro_batches = 1;
};

std::vector<ValueId> iteration(Builder& region, const RegionValues& values) {
  const ValueId wide = region.dot(values.carried[0], values.captured[0], "bi,ij->bj", "wide");
  const ValueId bent = region.unary("tanh", wide, "bent");
  const ValueId narrow = region.dot(bent, values.captured[1], "bj,ji->bi", "narrow");
  const ValueId half = region.mul_scalar(narrow, 0.5, "half");
  const ValueId next = region.sub(half, values.carried[0], "next");
  const ValueId norm = region.reduce_sum(next, {1}, "norm");
  return {next, region.sub(values.carried[1], norm, "rest")};
}

/// x[8, 6] goes through two matrices as long as something is left in each row, at most 5 times;
/// then by one of two ways.
Graph loop_and_branch() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {8, 6}});
  const ValueId left = builder.input("left", {DType::kF32, {8}});
  const ValueId up = builder.variable("up", {DType::kF32, {6, 12}}, Initializer::normal(0, 1));
  const ValueId down = builder.variable("down", {DType::kF32, {12, 6}}, Initializer::normal(0, 1));
  const ValueId floor = builder.constant({DType::kF32, {}}, 0, "floor");
  const auto goes_on = [](Builder& region, const RegionValues& values) {
    const ValueId smallest = region.reduce(ReduceOp::kMin, values.carried[1], {0}, "least");
    return std::vector{region.compare("gt", smallest, values.captured[2], "goes_on")};
  };
  const Loop loop = build_while(builder, {.carried = {x, left},
                                          .captured = {up, down, floor},
                                          .condition = goes_on,
                                          .body = iteration,
                                          .max_iterations = 5,
                                          .name = "loop"});
  const ValueId predicate = builder.input("predicate", {DType::kBool, {}});
  const auto product = [](Builder& region, const RegionValues& values) {
    const ValueId wide = region.dot(values.captured[0], values.captured[1], "bi,ij->bj", "wide");
    return std::vector{region.dot(wide, values.captured[2], "bj,ji->bi", "narrow")};
  };
  const auto opposite = [](Builder& region, const RegionValues& values) {
    return std::vector{region.unary("neg", values.captured[0], "opposite")};
  };
  graph.add_output("y", build_if(builder, {.predicate = predicate,
                                           .captured = {loop.results[0], up, down},
                                           .then_region = product,
                                           .else_region = opposite,
                                           .name = "choice"})[0]);
  return graph;
}

/// Rows over dp, the dim between the matrices over tp.
Case make_divided() {
  Case made{loop_and_branch(), {}, 1};
  const std::vector<Mark> marks{shard_tensor("x", "P(\"dp\")"),
                                shard_tensor("up", "P(None, \"tp\")"),
                                shard_tensor("down", "P(\"tp\")")};
  made.tasks =
      compile(made.graph, std::make_shared<const Mesh>(parse_mesh("dp=2 tp=2")), marks).tasks;
  return made;
}
const Case& region_faults_divided() {
  static const Case made = make_divided();
  return made;
}

/// What the check says; "" when it lets the task graph pass.
std::string region_faults_finding(const TaskGraph& tasks) {
  try {
    check_placements(region_faults_divided().graph, tasks, region_faults_divided().micro_batches);
    return "";
  } catch (const InternalError& error) {
    return error.what();
  }
}

/// The task graph with `plant` done to what op `name` runs.
TaskGraph with_planted(std::string_view name, const std::function<void(Control&)>& plant) {
  TaskGraph tasks = region_faults_divided().tasks;
  const auto plant_into = [&](std::shared_ptr<const Control>& control) {
    Control changed = *control;
    plant(changed);
    for (TaskGraph& region : changed.regions) link(region);
    control = std::make_shared<const Control>(std::move(changed));
  };
  for (TaskForm& task : tasks.tasks.forms())
    for (KernelForm& step : task.steps) {
      if (step.op != name) continue;
      plant_into(step.control);
      if (!step.variation) continue;
      KernelVariation variation = *step.variation;
      for (std::shared_ptr<const Control>& control : variation.controls) plant_into(control);
      step.variation = std::make_shared<const KernelVariation>(std::move(variation));
    }
  return tasks;
}

const Control& control_of(std::string_view name) {
  for (const Task& task : region_faults_divided().tasks.tasks)
    for (const KernelStep& step : task.steps)
      if (step.op == name) return *step.control;
  throw InternalError("no op of that name");
}

/// Plants at each task that `fits`, one at a time, in all regions of `name`, and expects a finding
/// that `says` so each time.
void expect_found(std::string_view name, const std::function<bool(const TaskForm&)>& fits,
                  const std::function<void(TaskGraph&, TaskForm&)>& plant,
                  const testing::Matcher<std::string>& says) {
  int planted = 0;
  for (size_t r = 0; r < 2; ++r)
    for (TaskId t : control_of(name).regions[r].tasks.indices()) {
      if (!fits(control_of(name).regions[r].tasks.form_of(t))) continue;
      ++planted;
      const TaskGraph tasks = with_planted(name, [&](Control& control) {
        plant(control.regions[r], control.regions[r].tasks.form(t));
      });
      EXPECT_THAT(region_faults_finding(tasks), says)
          << name << ", region " << r << ", task " << control_of(name).regions[r].tasks[t].name;
    }
  EXPECT_GT(planted, 0) << "the fault has a place in " << name;
}

bool resolves(const TaskForm& task) {
  return task.kind == Task::Kind::kExchange &&
         task.parts[0].exchange.from.partial.size() > task.parts[0].exchange.to.partial.size();
}

const auto kFound = HasSubstr("internal error: placements: ");

TEST(RegionFaults, NoneAreInWhatIsCompiled) {
  EXPECT_EQ(region_faults_finding(region_faults_divided().tasks), "");
}

TEST(RegionFaults, AMissingReductionIsFound) {
  for (const char* name : {"loop", "choice"}) expect_found(name, resolves, leave_out, kFound);
}

TEST(RegionFaults, AReductionThatIsDoneOtherwiseIsFound) {
  for (const char* name : {"loop", "choice"})
    expect_found(
        name, resolves,
        [](TaskGraph& region, TaskForm& task) {
          PartialAxis& axis = task.parts[0].exchange.from.partial.front();
          axis.reduce = axis.reduce == ReduceOp::kMax ? ReduceOp::kSum : ReduceOp::kMax;
          region.registers.forms()[task.inputs.front()].attr = task.parts[0].exchange.from;
        },
        kFound);
}

TEST(RegionFaults, APredicateThatEachRankTakesFromItsOwnRowsIsFound) {
  const TaskGraph tasks = with_planted("loop", [](Control& control) {
    TaskGraph& condition = control.regions[0];
    for (TaskForm& task : condition.tasks.forms())
      if (resolves(task)) leave_out(condition, task);
  });
  EXPECT_EQ(region_faults_finding(tasks),
            "internal error: placements: op 'loop.condition.goes_on' takes input 0 before its min "
            "over dp is taken");
}

/// Plants into each kernel step that fits.
void expect_found_in_steps(std::string_view name,
                           const std::function<bool(const KernelForm&)>& fits,
                           const std::function<void(TaskGraph&, KernelForm&)>& plant,
                           const testing::Matcher<std::string>& says) {
  expect_found(
      name,
      [&](const TaskForm& task) { return std::any_of(task.steps.begin(), task.steps.end(), fits); },
      [&](TaskGraph& region, TaskForm& task) {
        for (KernelForm& step : task.steps)
          if (fits(step)) return plant(region, step);
      },
      says);
}

TEST(RegionFaults, OperandsThatTradePlacesAreFound) {
  for (const char* name : {"loop", "choice"})
    expect_found_in_steps(
        name,
        [](const KernelForm& step) {
          return step.inputs.size() == 2 && step.inputs[0] != step.inputs[1];
        },
        [](TaskGraph&, KernelForm& step) { std::swap(step.inputs[0], step.inputs[1]); },
        AllOf(kFound, HasSubstr("as input 0")));
}

// What a iteration made is read where it is asked for what the iteration began with: of the same
// type, at the same place.
TEST(RegionFaults, AnOperandOfTheIterationBeforeIsFound) {
  expect_found_in_steps(
      "loop", [](const KernelForm& step) { return step.op == "loop.body.norm"; },
      [](TaskGraph& region, KernelForm& step) {
        step.inputs[0] = region.registers.numbering().form_of(region.variables[1].value);
      },
      AllOf(
          kFound,
          HasSubstr(
              "op 'loop.body.norm' takes 'loop.body.next' as input 0 and is given 'loop.body.x'")));
}

TEST(RegionFaults, AnotherKernelIsFound) {
  expect_found_in_steps(
      "loop", [](const KernelForm& step) { return step.call->kernel == "unary.tanh"; },
      [](TaskGraph&, KernelForm& step) {
        step.call.change([](KernelCall& call) { call.kernel = "unary.exp"; });
      },
      AllOf(kFound, HasSubstr("loop.body.bent")));
}

TEST(RegionFaults, AnotherNumberIsFound) {
  expect_found_in_steps(
      "loop", [](const KernelForm& step) { return step.op == "loop.body.half"; },
      [](TaskGraph&, KernelForm& step) {
        step.call.change([](KernelCall& call) { call.reals.at(0) = 0.25; });
      },
      AllOf(kFound, HasSubstr("loop.body.half")));
}

TEST(RegionFaults, CarriedValuesThatTradePlacesAreFound) {
  const TaskGraph tasks = with_planted("loop", [](Control& control) {
    for (TaskGraph& region : control.regions)
      std::swap(region.variables[1].value, region.variables[2].value);
  });
  EXPECT_THAT(region_faults_finding(tasks), kFound);
}

TEST(RegionFaults, BranchesThatTradePlacesAreFound) {
  EXPECT_THAT(
      region_faults_finding(with_planted(
          "choice", [](Control& control) { std::swap(control.regions[0], control.regions[1]); })),
      kFound);
}

TEST(RegionFaults, AnotherBoundOfTheIterationsIsFound) {
  EXPECT_EQ(region_faults_finding(
                with_planted("loop", [](Control& control) { control.max_iterations = 4; })),
            "internal error: placements: op 'loop' makes another number of iterations");
}

TEST(RegionFaults, AnIfInThePlaceOfAWhileIsFound) {
  EXPECT_EQ(region_faults_finding(
                with_planted("loop", [](Control& control) { control.kind = Control::Kind::kIf; })),
            "internal error: placements: op 'loop' does not run its regions");
}

TEST(RegionFaults, ACarriedValueThatAIterationLeavesAsItWasIsFound) {
  size_t left_out = 0;
  const TaskGraph tasks = with_planted("loop", [&](Control& control) {
    for (TaskForm& task : control.regions[1].tasks.forms())
      left_out += std::erase_if(task.steps,
                                [](const KernelForm& step) { return step.op == "loop.body.rest"; });
  });
  EXPECT_EQ(left_out, 1U);
  EXPECT_THAT(region_faults_finding(tasks), kFound);
}

}  // namespace
}  // namespace tessera
