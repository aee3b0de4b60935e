#include "task_graph/actors/run_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/files/file.h"
#include "sharding/layout/testing/mesh_of.h"
#include "task_graph/tasks/testing/hand_made.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::shared_ptr<TaskGraph> graph_of(HandMade made) {
  return std::make_shared<TaskGraph>(made.finish());
}

/// The order list of one rank.
std::vector<TaskId> order(std::initializer_list<int> tasks) {
  std::vector<TaskId> ids;
  for (int task : tasks) ids.emplace_back(task);
  return ids;
}

/// Tasks 0 to 5: feed, 'a', 'b', 'gather a', 'gather b', fetch.
HandMade two_gathers() {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex x = made.input("x", "f32[4@dp]");
  const RegisterIndex a = made.compute("a", {"scalar.mul", {}, {2}, ""}, {x}, "f32[4@dp]");
  const RegisterIndex b = made.compute("b", {"scalar.mul", {}, {3}, ""}, {x}, "f32[4@dp]");
  made.result("a", made.exchange("gather a", a, "f32[4]"));
  made.result("b", made.exchange("gather b", b, "f32[4]"));
  return made;
}

TEST(RunCheck, ProgramOrderHasNoDeadlock) {
  const auto graph = graph_of(two_gathers());
  const TaskActors actors = find_actors(graph, {0, 1});
  EXPECT_NO_THROW(check_run(actors, orders_of(actors)));
  EXPECT_NO_THROW(check_run(*graph, {0, 1}));
}

TEST(RunCheck, ADeadlockIsPrintedEdgeByEdge) {
  const TaskActors actors = find_actors(graph_of(two_gathers()), {0, 1});
  // Rank 0 reads b of rank 1 before it makes a, and rank 1 reads a of rank 0 before it makes b.
  const Orders orders{order({0, 2, 4, 1, 3, 5}), order({0, 1, 3, 2, 4, 5})};
  const std::string cycle =
      "task graph: deadlock: these acts wait for each other, and none can begin:"
      "\n  'a' of rank 0 comes after 'gather b' of rank 0 in the order list"
      "\n  'gather a' of rank 1 reads 'a' of 'a' of rank 0"
      "\n  'b' of rank 1 comes after 'gather a' of rank 1 in the order list"
      "\n  'gather b' of rank 0 reads 'b' of 'b' of rank 1";
  EXPECT_THAT([&] { check_run(actors, orders); },
              ThrowsMessage<InternalError>("internal error: " + cycle));
  EXPECT_THAT(read_file(std::filesystem::path(TESSERA_SOURCE_DIR) / "docs" / "runtime.md"),
              HasSubstr(cycle + "\n"));
}

TEST(RunCheck, ExchangesThatAreSwappedOnOneRankAreNamed) {
  const TaskActors actors = find_actors(graph_of(two_gathers()), {0, 1});
  // Both ranks have made a and b before, so this is no deadlock. In a library that matches calls by
  // their order it would be one.
  const Orders orders{order({0, 1, 2, 3, 4, 5}), order({0, 1, 2, 4, 3, 5})};
  EXPECT_THAT([&] { check_run(actors, orders); },
              ThrowsMessage<InternalError>(
                  "internal error: task graph: ranks do the same exchanges in different orders:"
                  "\n  rank 0 does 'gather a' before 'gather b'"
                  "\n  rank 1 does 'gather b' before 'gather a'"));
}

TEST(RunCheck, ARegisterWithoutSlotIsACycleOfTwo) {
  const auto graph = graph_of(two_gathers());
  graph->registers.form(RegisterIndex(1)).slots = 0;  // 'a'
  EXPECT_THAT(
      [&] { check_run(*graph, {0, 1}); },
      ThrowsMessage<InternalError>(HasSubstr("has no free slot of 'a' before 'gather a' of rank")));
}

TEST(RunCheck, OverwritingBeforeALaterReaderIsADeadlock) {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex w = made.variable("w", "f32[4@dp]");
  made.update("update w", {"scalar.mul", {}, {2}, ""}, {w}, w);
  made.result("old w", made.exchange("gather w", w, "f32[4]"));
  EXPECT_THAT([graph = graph_of(std::move(made))] { check_run(*graph, {0, 1}); },
              ThrowsMessage<InternalError>(
                  HasSubstr("'update w' of rank 0 overwrites 'w', which 'gather w' of rank ")));
}

TEST(RunCheck, AnOrderListNamesEveryTaskOnce) {
  const TaskActors actors = find_actors(graph_of(two_gathers()), {0, 1});
  EXPECT_THAT([&] { check_run(actors, {order({0, 1, 2, 3, 4, 5}), order({0, 1, 2, 3, 5})}); },
              ThrowsMessage<InternalError>(
                  HasSubstr("the order list of rank 1 has 5 tasks: each of the 6")));
}

TEST(RunCheck, TheMarkedGraphPredictsTheTimeOfAStep) {
  // A rank alone takes the time of all its acts: feed 0, a 2, b 3, gathers 1 each, fetch 0. A
  // gather waits for both ranks, and a slow 'a' on rank 1 (10) delays rank 0: 10 + 3 + 1 + 1.
  const TaskActors actors = find_actors(graph_of(two_gathers()), {0, 1});
  const MarkedGraph graph = make_marked_graph(actors, orders_of(actors));
  std::vector<double> times{0, 2, 3, 1, 1, 0, 0, 2, 3, 1, 1, 0};
  EXPECT_DOUBLE_EQ(find_slowest_cycle(graph, times).period, 7);
  times[7] = 10;
  EXPECT_DOUBLE_EQ(find_slowest_cycle(graph, times).period, 15);
}

TEST(RunCheck, ASecondSlotOverlapsProducerAndReaderOnTwoRanks) {
  // Rank 0 makes y in 10, and rank 1 takes 10 to receive it. With one slot they alternate, with
  // two they work at the same time.
  const auto period = [](int slots) {
    const auto stage = [](Rank rank) {
      return std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"dp"},
                                          std::vector{rank});
    };
    HandMade made(stage(0));
    const RegisterIndex y =
        made.compute("y", {"scalar.mul", {}, {2}, ""}, {made.input("x", "f32[4]")}, "f32[4]");
    made.place_on(stage(1));
    made.exchange("send y", y, "f32[4]");
    const auto graph = graph_of(std::move(made));
    graph->registers.form(y).slots = slots;
    const TaskActors actors = find_actors(graph, {0, 1});
    std::vector<double> times(static_cast<size_t>(2 * graph->tasks.size()), 0);
    for (int rank : {0, 1})
      for (TaskId task : order_of(actors, rank))
        if (graph->tasks[task].name != "feed" && graph->tasks[task].name != "fetch")
          times[actors.actor_id(rank, task)] = 10;
    return find_slowest_cycle(make_marked_graph(actors, orders_of(actors)), times).period;
  };
  EXPECT_DOUBLE_EQ(period(1), 20);
  EXPECT_DOUBLE_EQ(period(2), 10);
}

TEST(RunCheck, ManyRanksAreCheckedByOneRankPerSetOfMeshes) {
  // 4096 ranks: the gather alone would have 16 million links.
  HandMade made(mesh_of("dp=4096"));
  const RegisterIndex x = made.input("x", "f32[4096@dp]");
  made.result("x", made.exchange("gather", x, "f32[4096]"));
  const auto graph = graph_of(std::move(made));
  std::vector<Rank> ranks(4096);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<Rank>(i);
  EXPECT_NO_THROW(check_run(*graph, ranks));
}

}  // namespace
}  // namespace tessera
