#include "schedule/order.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

/// Tasks by name; register i is filled by edges[i].first and read by edges[i].second.
TaskGraph tasks_with(const std::vector<std::string>& names,
                     const std::vector<std::pair<TaskId, TaskId>>& edges) {
  TaskGraph graph;
  for (const std::string& name : names) {
    Task task;
    task.name = name;
    graph.tasks.push_back(std::move(task));
  }
  for (const auto& [producer, consumer] : edges) {
    Register reg;
    reg.producer = producer;
    reg.consumers = {consumer};
    graph.registers.push_back(std::move(reg));
  }
  return graph;
}

TEST(ProgramOrder, KeepsTheOrderOfTheProgramWhereItMay) {
  EXPECT_EQ(program_order(tasks_with({"a", "b", "c"}, {{0, 2}})), (std::vector<TaskId>{0, 1, 2}));
}

TEST(ProgramOrder, PutsATaskAfterWhatItReads) {
  // d reads from c, a from d: c and d must come before a.
  EXPECT_EQ(program_order(tasks_with({"a", "b", "c", "d"}, {{2, 3}, {3, 0}})),
            (std::vector<TaskId>{1, 2, 3, 0}));
}

TEST(ProgramOrder, NamesACircle) {
  try {
    program_order(tasks_with({"a", "b", "c"}, {{0, 1}, {1, 0}}));
    FAIL() << "a circle was ordered";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(), "internal error: tasks wait for each other in a circle: 'a', 'b'");
  }
}

}  // namespace
}  // namespace tessera
