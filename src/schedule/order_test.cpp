#include "schedule/order.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

/// Makes tasks by name. Register i is filled by edges[i].first and read by edges[i].second.
TaskGraph tasks_with(const std::vector<std::string>& names,
                     const std::vector<std::pair<int, int>>& edges) {
  TaskGraph graph;
  for (const std::string& name : names) {
    Task task;
    task.name = name;
    graph.tasks.push_back(std::move(task));
  }
  for (const auto& [producer, consumer] : edges) {
    Register reg;
    reg.producer = TaskId(producer);
    reg.consumers = {TaskId(consumer)};
    graph.registers.push_back(std::move(reg));
  }
  return graph;
}

std::string order_text(const TaskGraph& graph) {
  std::string text;
  for (TaskId task : program_order(graph))
    text += (text.empty() ? "" : " ") + graph.tasks[task].name;
  return text;
}

TEST(ProgramOrder, KeepsTheOrderOfTheProgramWhereItMay) {
  EXPECT_EQ(order_text(tasks_with({"a", "b", "c"}, {{0, 2}})), "a b c");
}

TEST(ProgramOrder, PutsATaskAfterWhatItReads) {
  // d reads from c, and a reads from d: c and d must come before a.
  EXPECT_EQ(order_text(tasks_with({"a", "b", "c", "d"}, {{2, 3}, {3, 0}})), "b c d a");
}

TEST(ProgramOrder, NamesACycle) {
  try {
    program_order(tasks_with({"a", "b", "c"}, {{0, 1}, {1, 0}}));
    FAIL() << "a cycle was ordered";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(), "internal error: tasks wait for each other in a cycle: 'a', 'b'");
  }
}

}  // namespace
}  // namespace tessera
