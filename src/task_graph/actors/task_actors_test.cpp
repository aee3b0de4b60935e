#include "task_graph/actors/task_actors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text/text.h"
#include "sharding/layout/testing/mesh_of.h"
#include "task_graph/actors/simulated_run.h"
#include "task_graph/tasks/testing/hand_made.h"

namespace tessera {
namespace {

using testing::ElementsAre;

std::shared_ptr<const TaskGraph> task_actors_graph_of(HandMade made) {
  return std::make_shared<const TaskGraph>(made.finish());
}

/// The actor as text: "1 'y': takes 0 from 0; gives 1 x2 to 2, 5".
std::string text_of(const ActorDescription& actor) {
  std::vector<std::string> parts;
  for (const InPort& in : actor.inputs)
    parts.push_back("takes " + std::to_string(in.reg) + " from " + std::to_string(in.producer));
  for (const OutPort& out : actor.outputs) {
    std::vector<std::string> consumers;
    for (ActorId consumer : out.consumers) consumers.push_back(std::to_string(consumer));
    parts.push_back("gives " + std::to_string(out.reg) + " to " + join(consumers, ", "));
  }
  return std::to_string(actor.id) + " '" + actor.name + "': " + join(parts, "; ");
}

std::vector<std::string> texts_of(const TaskActors& actors, int rank_index) {
  std::vector<std::string> texts;
  for (TaskId task : actors.graph().tasks.indices())
    texts.push_back(text_of(actors.describe(rank_index, task)));
  return texts;
}

/// feed, 'double', 'gather', fetch; registers x, double, gather.
HandMade gathering(const std::string& mesh) {
  HandMade made(mesh_of(mesh));
  const RegisterIndex x = made.input("x", "f32[6@dp]");
  const RegisterIndex doubled =
      made.compute("double", {"scalar.mul", {}, {2}, ""}, {x}, "f32[6@dp]");
  made.result("all", made.exchange("gather", doubled, "f32[6]"));
  return made;
}

TEST(TaskActors, AnExchangeTakesARegisterOfEverySenderAndTheSendersKnow) {
  const TaskActors actors = find_actors(task_actors_graph_of(gathering("dp=2")), {0, 1});
  // Actors 0 to 3 and registers 0 to 2 are of the first rank, 4 to 7 and 3 to 5 of the second.
  EXPECT_THAT(texts_of(actors, 0),
              ElementsAre("0 'feed': gives 0 to 1", "1 'double': takes 0 from 0; gives 1 to 2, 6",
                          "2 'gather': takes 1 from 1; takes 4 from 5; gives 2 to 3",
                          "3 'fetch': takes 2 from 2"));
  EXPECT_THAT(texts_of(actors, 1),
              ElementsAre("4 'feed': gives 3 to 5", "5 'double': takes 3 from 4; gives 4 to 2, 6",
                          "6 'gather': takes 1 from 1; takes 4 from 5; gives 5 to 7",
                          "7 'fetch': takes 5 from 6"));
}

TEST(TaskActors, TheInputPortsOfAnExchangeAreThoseOfOnePartAfterTheOther) {
  // Registers x, y and their wholes 0 to 3 on rank 0, 4 to 7 on rank 1; actors 0 to 2 and 3 to 5.
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex x = made.input("x", "f32[4@dp]"), y = made.input("y", "i32[3@dp]");
  const std::vector<RegisterIndex> all = made.exchange("both", {x, y}, {"f32[4]", "i32[3]"});
  made.result("x", all[0]);
  made.result("y", all[1]);
  const TaskActors actors = find_actors(task_actors_graph_of(std::move(made)), {0, 1});
  EXPECT_THAT(texts_of(actors, 0),
              ElementsAre("0 'feed': gives 0 to 1, 4; gives 1 to 1, 4",
                          "1 'both': takes 0 from 0; takes 4 from 3; takes 1 from 0; takes 5 from "
                          "3; gives 2 to 2; gives 3 to 2",
                          "2 'fetch': takes 2 from 1; takes 3 from 1"));
  EXPECT_THAT(actors.senders(TaskId(1), 1, 0), ElementsAre(0, 1));
  EXPECT_TRUE(actors.recv_regions_from(TaskId(1), 1, 0, 1));
}

TEST(TaskActors, IdsMapBackToRanksTasksAndRegisters) {
  const TaskActors actors = find_actors(task_actors_graph_of(gathering("dp=2")), {0, 1});
  EXPECT_EQ(actors.rank_index_of(6), 1);
  EXPECT_EQ(actors.task_of(6), TaskId(2));
  EXPECT_EQ(actors.register_of(4), RegisterIndex(1));
  EXPECT_EQ(actors.actor_id(1, TaskId(2)), 6);
  EXPECT_EQ(actors.register_id(1, RegisterIndex(1)), 4);
}

TEST(TaskActors, ARankWithAnEmptyPartSendsNothing) {
  // 2 rows over 3 ranks: the third rank has none.
  HandMade made(mesh_of("dp=3"));
  const RegisterIndex x = made.input("x", "f32[2@dp]");
  made.result("all", made.exchange("gather", x, "f32[2]"));
  const TaskActors actors = find_actors(task_actors_graph_of(std::move(made)), {0, 1, 2});
  EXPECT_THAT(actors.senders(TaskId(1), 0, 2), ElementsAre(0, 1));
  EXPECT_FALSE(actors.recv_regions_from(TaskId(1), 0, 0, 2));
  EXPECT_TRUE(actors.describe(2, TaskId(0)).outputs[0].consumers.empty());
}

TEST(TaskActors, ARankOutsideOfTheMeshReceivesNoMessages) {
  const TaskActors actors = find_actors(task_actors_graph_of(gathering("dp=2")), {0, 1, 7});
  EXPECT_FALSE(actors.acts_in(2, TaskId(0)));
  EXPECT_TRUE(order_of(actors, 2).empty());
  EXPECT_THAT(texts_of(actors, 2),
              ElementsAre("8 'feed': ", "9 'double': ", "10 'gather': ", "11 'fetch': "));
  EXPECT_EQ(actors.index_of(7), 2);
  EXPECT_THROW(actors.index_of(3), InternalError);
}

TEST(TaskActors, AnUpdateWaitsForTheReadersOfWhatItOverwrites) {
  HandMade made(mesh_of("dp=2"));
  const RegisterIndex w = made.variable("w", "f32[4]");
  made.update("double w", {"scalar.mul", {}, {2}, ""}, {w}, w);
  const TaskActors actors = find_actors(task_actors_graph_of(std::move(made)), {0, 1});
  ASSERT_EQ(actors.overwrites(1, TaskId(1)).size(), 1u);
  EXPECT_EQ(actors.overwrites(1, TaskId(1))[0].producer, actors.actor_id(1, TaskId(0)));
  EXPECT_EQ(actors.overwrites(1, TaskId(1))[0].reg, actors.register_id(1, w));
  EXPECT_TRUE(actors.overwrites(1, TaskId(0)).empty());
}

TEST(TaskActors, AllActorsRunIterationAfterIteration) {
  const TaskActors actors = find_actors(task_actors_graph_of(gathering("dp=4")), {0, 1, 2, 3});
  std::vector<ActorDescription> all;
  for (int rank = 0; rank < 4; ++rank)
    for (int task = 0; task < 4; ++task) all.push_back(actors.describe(rank, TaskId(task)));
  const SimulatedRun run = simulate_actors(all, 5);
  EXPECT_EQ(run.acts.size(), 16u * 5u);
  EXPECT_TRUE(run.is_quiescent);
}

}  // namespace
}  // namespace tessera
