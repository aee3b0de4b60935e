#include "task_graph/tasks/required_anti_dependences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "task_graph/tasks/testing/hand_made.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const KernelCall kTwice{"scalar.mul", {}, {2}, ""};

/// feed, y, gather (which reads y on all ranks), a, b, c, fetch; tasks may overwrite y.
struct Program {
  TaskGraph graph;
  RegisterIndex y;
  std::vector<TaskId> stream;  // all tasks in order
};

Program overwriting_program(const std::vector<int>& overwriting) {
  HandMade made(std::make_shared<Mesh>(parse_mesh("dp=2")));
  const RegisterIndex x = made.input("x", "f32[8@dp]");
  const RegisterIndex y = made.compute("y", kTwice, {x}, "f32[8@dp]");
  RegisterIndex z = made.exchange("gather", y, "f32[8]");
  for (const char* name : {"a", "b", "c"}) z = made.compute(name, kTwice, {z}, "f32[8]");
  made.result("z", z);
  Program program{made.finish(), y, {}};
  for (int task : overwriting) program.graph.tasks.overwrites(TaskId(task)) = {y};
  program.stream = program.graph.order;
  return program;
}

/// The tasks that need a check of y.
std::vector<int> needed(const Program& program) {
  std::vector<int> tasks;
  const auto lists = required_anti_dependences(program.graph, program.stream);
  for (size_t place = 0; place < lists.size(); ++place)
    if (!lists[place].empty()) {
      EXPECT_THAT(lists[place], ElementsAre(program.y));
      tasks.push_back(program.stream[place].value());
    }
  return tasks;
}

TEST(RequiredAntiDependences, TheFirstTaskAfterTheProducerWaitsForAllLaterOnes) {
  EXPECT_THAT(needed(overwriting_program({3, 4, 5})), ElementsAre(3));
}

TEST(RequiredAntiDependences, ATaskBeforeTheProducerWaitsForTheReadersOfTheStepBefore) {
  // The feed, task 0, is before y: in the first step nothing has been read, and after task 5 all
  // readers have released y.
  EXPECT_THAT(needed(overwriting_program({0, 5})), ElementsAre(0, 5));
  EXPECT_THAT(needed(overwriting_program({0})), ElementsAre(0));
}

TEST(RequiredAntiDependences, AReaderDoesNotWaitForItself) {
  // The gather, task 2, reads y: after it has waited for the others, it holds y itself.
  EXPECT_THAT(needed(overwriting_program({2, 3, 4})), ElementsAre(2, 3));
}

TEST(RequiredAntiDependences, WhatAnotherStreamFillsIsAlwaysChecked) {
  Program made = overwriting_program({3, 4, 5});
  made.stream = {TaskId(3), TaskId(4), TaskId(5)};
  EXPECT_THAT(needed(made), ElementsAre(3, 4, 5));
}

TEST(RequiredAntiDependences, ASourceMayLeaveOutWhatIsReleased) {
  const Program made = overwriting_program({0, 3, 4, 5});
  bool is_released = false;
  std::vector<int> asked;  // while y is released
  const auto lists = required_anti_dependences(
      made.graph, made.stream,
      {[&](TaskId task) {
         if (is_released) asked.push_back(task.value());
         const std::span<const RegisterIndex> list = made.graph.tasks[task].overwrites;
         return is_released ? std::vector<RegisterIndex>()
                            : std::vector<RegisterIndex>(list.begin(), list.end());
       },
       [&](RegisterIndex) { is_released = true; },
       [&](RegisterIndex reg) { is_released = is_released && reg != made.y; }});
  EXPECT_EQ(lists, required_anti_dependences(made.graph, made.stream));
  // Released by task 0, filled by task 1 and released again by task 3, which is so in the second
  // step, too.
  EXPECT_THAT(asked, ElementsAre(1, 4, 5, 6, 0, 1, 4, 5, 6));
}

TEST(RequiredAntiDependences, ARegisterWithoutReadersIsNotWaitedFor) {
  Program made = overwriting_program({3});
  made.graph.tasks.form(TaskId(2)).inputs = {
      made.graph.registers.numbering().form_of(made.graph.tasks[TaskId(1)].inputs.front())};
  link(made.graph);  // the gather reads x
  EXPECT_THAT(needed(made), IsEmpty());
}

}  // namespace
}  // namespace tessera
