#include "task_graph/actors/simulated_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

/// a -> b -> c with `slots` slots on each register. c writes a register without readers.
std::vector<ActorDescription> chain_of_three(int slots) {
  return {{.id = 0, .name = "a", .inputs = {}, .outputs = {{0, slots, {1}}}},
          {.id = 1, .name = "b", .inputs = {{0, 0}}, .outputs = {{1, slots, {2}}}},
          {.id = 2, .name = "c", .inputs = {{1, 1}}, .outputs = {{2, slots, {}}}}};
}

std::string chart(const std::vector<ActorDescription>& actors, int64_t iterations) {
  return print_chart(simulate_actors(actors, iterations), actors);
}

/// The slots that `actor` writes, iteration by iteration.
std::vector<int> slots_written(const SimulatedRun& run, ActorId actor) {
  std::vector<int> slots;
  for (const SimulatedAct& act : run.acts)
    if (act.actor == actor) slots.push_back(act.act.output_slots.at(0));
  return slots;
}

TEST(SimulatedRun, ThreeActorsWithTwoSlotsWorkAtOnce) {
  EXPECT_EQ(chart(chain_of_three(2), 4),
            "0: a0\n"
            "1: a1 b0\n"
            "2: a2 b1 c0\n"
            "3: a3 b2 c1\n"
            "4: b3 c2\n"
            "5: c3\n");
}

TEST(SimulatedRun, TheThirdIterationUsesTheSlotThatTheFirstReleased) {
  // b0 ends at time 2 and releases slot 0: a2 begins at time 2 and writes it.
  const SimulatedRun run = simulate_actors(chain_of_three(2), 4);
  EXPECT_THAT(slots_written(run, 0), ElementsAre(0, 1, 0, 1));
}

TEST(SimulatedRun, WithOneSlotAnActorWaitsForItsConsumer) {
  // a0 is in the only slot until b0 ends at time 2, so a works in the even units and b in the odd
  // ones.
  EXPECT_EQ(chart(chain_of_three(1), 3),
            "0: a0\n"
            "1: b0\n"
            "2: a1 c0\n"
            "3: b1\n"
            "4: a2 c1\n"
            "5: b2\n"
            "6: c2\n");
}

TEST(SimulatedRun,
     BatchesTakeTwoMoreUnitsThanTheirNumberWithTwoSlotsAndTwiceTheirNumberPlusOneWithOne) {
  for (int64_t batches = 1; batches <= 20; ++batches) {
    EXPECT_EQ(simulate_actors(chain_of_three(2), batches).duration, batches + 2);
    EXPECT_EQ(simulate_actors(chain_of_three(1), batches).duration, 2 * batches + 1);
  }
}

TEST(SimulatedRun, MoreThanTwoSlotsGainNothingWhenAllTakeTheSameTime) {
  for (int slots : {3, 8}) EXPECT_EQ(chart(chain_of_three(slots), 6), chart(chain_of_three(2), 6));
}

TEST(SimulatedRun, EverySlotIsReleased) {
  for (int slots : {1, 2, 5}) EXPECT_TRUE(simulate_actors(chain_of_three(slots), 7).is_quiescent);
}

TEST(SimulatedRun, SeveralConsumersReadAnIterationAndTheSlowestHoldsTheSlot) {
  // a feeds b and, through b, d: d reads register 0 as well, one unit after b. With two slots a2
  // waits until d0 ends, at time 3.
  const std::vector<ActorDescription> actors = {
      {.id = 0, .name = "a", .inputs = {}, .outputs = {{0, 2, {1, 2}}}},
      {.id = 1, .name = "b", .inputs = {{0, 0}}, .outputs = {{1, 2, {2}}}},
      {.id = 2, .name = "d", .inputs = {{0, 0}, {1, 1}}, .outputs = {}}};
  EXPECT_EQ(chart(actors, 3),
            "0: a0\n"
            "1: a1 b0\n"
            "2: b1 d0\n"
            "3: a2 d1\n"
            "4: b2\n"
            "5: d2\n");
}

TEST(SimulatedRun, AControlRegisterOrdersActorsThatShareNoData) {
  // A register of one slot without a tensor: y acts after x, and x acts again only after y.
  const std::vector<ActorDescription> free = {{0, "x", {}, {}}, {1, "y", {}, {}}};
  EXPECT_EQ(chart(free, 2), "0: x0 y0\n1: x1 y1\n");
  const std::vector<ActorDescription> ordered = {{0, "x", {}, {{0, 1, {1}}}},
                                                 {1, "y", {{0, 0}}, {}}};
  EXPECT_EQ(chart(ordered, 2), "0: x0\n1: y0\n2: x1\n3: y1\n");
}

/// "a0 [0,3)": the acts by name and iteration with their times.
std::string times(const SimulatedRun& run, const std::vector<ActorDescription>& actors) {
  std::string text;
  for (const SimulatedAct& act : run.acts)
    text += actors[act.actor].name + std::to_string(act.act.iteration) + " [" +
            std::to_string(act.start) + "," + std::to_string(act.end) + ") ";
  return text;
}

TEST(SimulatedRun, ActsTakeTheirTimes) {
  // b takes three units and a takes one: a is one slot ahead and then waits for b.
  const SimulatedSetting setting{.duration = [](ActorId actor) { return actor == 1 ? 3 : 1; }};
  const SimulatedRun run = simulate_actors(chain_of_three(2), 3, setting);
  EXPECT_EQ(times(run, chain_of_three(2)),
            "a0 [0,1) a1 [1,2) b0 [1,4) a2 [4,5) b1 [4,7) c0 [4,5) b2 [7,10) c1 [7,8) c2 [10,11) ");
  EXPECT_EQ(run.duration, 11);
}

TEST(SimulatedRun, AnActThatTakesNoTimeIsSeenAtOnce) {
  const SimulatedSetting setting{.duration = [](ActorId actor) { return actor == 1 ? 0 : 1; }};
  EXPECT_EQ(times(simulate_actors(chain_of_three(2), 2, setting), chain_of_three(2)),
            "a0 [0,1) a1 [1,2) b0 [1,1) c0 [1,2) b1 [2,2) c1 [2,3) ");
}

TEST(SimulatedRun, AStreamDoesOneActAtATimeInItsOrder) {
  // a and c are on one stream, b is on another.
  const SimulatedSetting setting{.streams = {{0, 2}, {1}}};
  EXPECT_EQ(print_chart(simulate_actors(chain_of_three(2), 2, setting), chain_of_three(2)),
            "0: a0\n1: b0\n2: c0\n3: a1\n4: b1\n5: c1\n");
}

TEST(SimulatedRun, AMessageMayTakeTime) {
  // A message from a to b takes two units. The slot is released without delay, since only messages
  // to b are slow.
  const SimulatedSetting setting{
      .delay = [](const Message& message) { return message.to == 1 ? 2 : 0; }};
  const SimulatedRun run = simulate_actors(chain_of_three(2), 1, setting);
  EXPECT_EQ(times(run, chain_of_three(2)), "a0 [0,1) b0 [3,4) c0 [4,5) ");
  EXPECT_EQ(run.messages.front().sent, 1);
  EXPECT_EQ(run.messages.front().arrived, 3);
}

TEST(SimulatedRun, ABarrierSeparatesIterations) {
  const SimulatedSetting setting{.barrier_between_iterations = true};
  EXPECT_EQ(print_chart(simulate_actors(chain_of_three(2), 2, setting), chain_of_three(2)),
            "0: a0\n1: b0\n2: c0\n3: a1\n4: b1\n5: c1\n");
}

TEST(SimulatedRun, AnOverwriteWaitsForTheReaders) {
  // y overwrites the bytes that x gave to z, on another stream, so it waits until z has released
  // them.
  const std::vector<ActorDescription> actors = {
      {0, "x", {}, {{0, 1, {2}}}}, {1, "y", {}, {}}, {2, "z", {{0, 0}}, {}}};
  const SimulatedSetting setting{.streams = {{0, 1}, {2}},
                                 .overwrites = {{}, {{0, 0}}, {}},
                                 .duration = [](ActorId actor) { return actor == 2 ? 5 : 1; }};
  EXPECT_EQ(times(simulate_actors(actors, 1, setting), actors), "x0 [0,1) z0 [1,6) y0 [6,7) ");
}

TEST(SimulatedRun, AnOverwriteOfSeveralRegistersWaitsForTheLastReader) {
  // y overwrites both registers of x, v only the first one, which a reads until 6 and b until 4; c
  // reads the second one until 9.
  const std::vector<ActorDescription> actors = {{0, "x", {}, {{0, 1, {3, 4}}, {1, 1, {5}}}},
                                                {1, "y", {}, {}},
                                                {2, "v", {}, {}},
                                                {3, "a", {{0, 0}}, {}},
                                                {4, "b", {{0, 0}}, {}},
                                                {5, "c", {{1, 0}}, {}}};
  const std::vector<int64_t> durations = {1, 1, 1, 5, 3, 8};
  SimulatedSetting setting{.streams = {{0, 1}, {2}, {3}, {4}, {5}},
                           .overwrites = {{}, {{0, 0}, {0, 1}}, {{0, 0}}, {}, {}, {}},
                           .duration = [&](ActorId actor) { return durations[actor]; }};
  // v acts at once: the register is not filled yet.
  EXPECT_EQ(times(simulate_actors(actors, 1, setting), actors),
            "x0 [0,1) v0 [0,1) a0 [1,6) b0 [1,4) c0 [1,9) y0 [9,10) ");
  // Its second act waits for b, then for a; the second one of x for y, which shares its stream.
  EXPECT_EQ(times(simulate_actors(actors, 2, setting), actors),
            "x0 [0,1) v0 [0,1) a0 [1,6) b0 [1,4) c0 [1,9) v1 [6,7) y0 [9,10) x1 [10,11) "
            "a1 [11,16) b1 [11,14) c1 [11,19) y1 [19,20) ");
}

TEST(SimulatedRun, ARunOfNoIterationsTakesNoTime) {
  const SimulatedRun run = simulate_actors(chain_of_three(2), 0);
  EXPECT_EQ(run.duration, 0);
  EXPECT_EQ(print_chart(run, chain_of_three(2)), "");
  EXPECT_TRUE(run.is_quiescent);
}

// ---- demands: fixed time and flows ----

constexpr int64_t kUnitANanosecond = 1'000'000'000;  // units a second: a unit a nanosecond
const ResourceId kLink(0), kCores(1);

/// Actors x, y, ... without registers, on a link and a core of one unit a nanosecond.
struct Demands {
  std::vector<ActDemand> list;
  SimulatedSetting setting = {};

  std::string times(int64_t iterations = 1) {
    std::vector<ActorDescription> actors;
    for (ActorId id = 0; id < std::ssize(list); ++id)
      actors.push_back({id, std::string(1, static_cast<char>('x' + id)), {}, {}});
    setting.resources = {{"link", kUnitANanosecond},
                         {"core", kUnitANanosecond, Resource::Kind::kCores}};
    setting.demand = [this](ActorId id) -> const ActDemand& { return list[id]; };
    return tessera::times(simulate_actors(actors, iterations, setting), actors);
  }
};

TEST(SimulatedRun, TheFlowsOfAnActMoveAtTheSameTimeAfterItsFixedTime) {
  // 10 ns pass; then 300 ns of the link and 200 ns of the core.
  const ActDemand x{10, {{300, {{kLink}}}, {200, {{kCores}}}}};
  EXPECT_EQ(Demands{{x}}.times(), "x0 [0,310) ");
}

TEST(SimulatedRun, ActsShareALinkOnlyWhileTheirFlowsMove) {
  // x moves 100 alone in [0,100). y is in its fixed time until then. Then each moves 100 at half of
  // the link.
  EXPECT_EQ(Demands({{{0, {{200, {{kLink}}}}}, {100, {{100, {{kLink}}}}}}}).times(),
            "x0 [0,300) y0 [0,300) ");
}

TEST(SimulatedRun, AnActWithoutFlowsTakesItsFixedTime) {
  EXPECT_EQ(Demands({{{7, {}}, {7, {{0, {{kLink}}}}}}}).times(2),
            "x0 [0,7) y0 [0,7) x1 [7,14) y1 [7,14) ");
}

TEST(SimulatedRun, ASlowActTakesMoreFixedAndCoreTimeButMovesNoMoreBytes) {
  // The second act of x is twice as slow: 2 * 10 + 2 * 200 instead of 10 + 200; 250 bytes.
  Demands made({{{10, {{200, {{kCores}}}}}, {10, {{250, {{kLink}}}}}}});
  made.setting.slowdown = [](ActorId, int64_t act) { return act == 1 ? 2 : 1; };
  EXPECT_EQ(made.times(2), "x0 [0,210) y0 [0,260) x1 [210,630) y1 [260,530) ");
}

TEST(SimulatedRun, AMessageIsSentWhenTheLastFlowHasEnded) {
  const ActDemand slow{5, {{20, {{kLink}}}, {10, {{kLink}}}}};  // the link is busy for 30 ns
  const SimulatedSetting setting{.demand = [&](ActorId) -> const ActDemand& { return slow; },
                                 .resources = {{"link", kUnitANanosecond}},
                                 .records_messages = false};
  const SimulatedRun run = simulate_actors(chain_of_three(1), 1, setting);
  EXPECT_EQ(times(run, chain_of_three(1)), "a0 [0,35) b0 [35,70) c0 [70,105) ");
  EXPECT_TRUE(run.messages.empty());
}

TEST(SimulatedRun, ActorsThatWaitForEachOtherAreNamed) {
  const std::vector<ActorDescription> ring = {{0, "x", {{1, 1}}, {{0, 1, {1}}}},
                                              {1, "y", {{0, 0}}, {{1, 1, {0}}}}};
  EXPECT_THAT(
      [&] { simulate_actors(ring, 1); },
      ThrowsMessage<InternalError>("internal error: no actor can act:\n"
                                   "  actor 0 'x' waits for register 1 of actor 1, iteration 0\n"
                                   "  actor 1 'y' waits for register 0 of actor 0, iteration 0"));
}

}  // namespace
}  // namespace tessera
