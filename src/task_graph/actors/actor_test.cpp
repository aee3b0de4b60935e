#include "task_graph/actors/actor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/allocation.h"

namespace {

int64_t allocations = 0;  // of the whole program; the tests are one thread

}  // namespace

void tessera::allocation_testing::on_allocation(const void*) {
  ++allocations;
}

namespace tessera {
namespace {

using Kind = Message::Kind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Actor 1: takes register 10 from actor 0, writes register 20 with `slots` slots for `consumers`.
ActorDescription middle(int slots, std::vector<ActorId> consumers) {
  return {.id = 1,
          .name = "middle",
          .inputs = {{.reg = 10, .producer = 0}},
          .outputs = {{20, slots, std::move(consumers)}}};
}

Message ready(RegisterId reg, int slot, int64_t iteration) {
  return {Kind::kReady, 1, reg, slot, iteration, 0};
}
Message returned(RegisterId reg, int slot, int64_t iteration, ActorId from) {
  return {Kind::kReleased, 1, reg, slot, iteration, from};
}

/// One whole act and the messages that it sends.
std::vector<Message> act(Actor& actor) {
  std::vector<Message> messages;
  actor.begin();
  actor.finish(messages);
  return messages;
}

TEST(Actor, ActsWhenItsInputIsFilledAndItsOutputIsFree) {
  Actor actor(middle(1, {2}));
  EXPECT_FALSE(actor.ready());
  actor.receive(ready(10, 0, 0));
  EXPECT_TRUE(actor.ready());
}

TEST(Actor, AnActNamesItsIterationAndItsSlots) {
  Actor actor(middle(2, {2}));
  actor.receive(ready(10, 0, 0));
  act(actor);
  actor.receive(ready(10, 1, 1));
  const Act& second = actor.begin();
  EXPECT_EQ(second.iteration, 1);
  EXPECT_THAT(second.input_slots, ElementsAre(1));
  EXPECT_THAT(second.output_slots, ElementsAre(1));
  EXPECT_EQ(actor.iterations(), 2);
}

TEST(Actor, AnActNotifiesConsumersAndThenReleasesItsInputs) {
  Actor actor(middle(2, {2, 5}));
  actor.receive(ready(10, 3, 0));
  EXPECT_THAT(act(actor), ElementsAre(Message{Kind::kReady, 2, 20, 0, 0, 1},
                                      Message{Kind::kReady, 5, 20, 0, 0, 1},
                                      Message{Kind::kReleased, 0, 10, 3, 0, 1}));
}

TEST(Actor, ASlotIsFreeWhenAllConsumersHaveReleasedIt) {
  Actor actor(middle(1, {2, 5}));
  actor.receive(ready(10, 0, 0));
  act(actor);
  actor.receive(ready(10, 0, 1));
  EXPECT_FALSE(actor.ready());
  actor.receive(returned(20, 0, 0, 5));
  EXPECT_FALSE(actor.ready());
  actor.receive(returned(20, 0, 0, 2));
  EXPECT_TRUE(actor.ready());
}

TEST(Actor, ARegisterWithoutConsumersHasItsSlotFreeAtOnce) {
  Actor actor(middle(1, {}));
  for (int64_t iteration = 0; iteration < 3; ++iteration) {
    actor.receive(ready(10, 0, iteration));
    EXPECT_THAT(act(actor), ElementsAre(Message{Kind::kReleased, 0, 10, 0, iteration, 1}));
  }
  EXPECT_TRUE(actor.is_quiescent());
}

TEST(Actor, IterationsAreExecutedInOrderEvenIfTheyArriveOutOfOrder) {
  Actor actor(middle(3, {2}));
  actor.receive(ready(10, 1, 1));
  EXPECT_FALSE(actor.ready());
  EXPECT_EQ(actor.waits_for(), "waits for register 10 of actor 0, iteration 0");
  actor.receive(ready(10, 0, 0));
  EXPECT_EQ(actor.begin().iteration, 0);
  std::vector<Message> messages;
  actor.finish(messages);
  EXPECT_TRUE(actor.ready());
  EXPECT_EQ(actor.begin().iteration, 1);
}

TEST(Actor, SlotsAreUsedInTurnEvenIfALaterOneIsReleasedFirst) {
  // Iterations 0 and 1 use slots 0 and 1. Iteration 2 needs slot 0, so it waits although slot 1 is
  // released.
  Actor actor(middle(2, {2}));
  for (int slot : {0, 1}) {
    actor.receive(ready(10, slot, slot));
    act(actor);
  }
  actor.receive(ready(10, 0, 2));
  actor.receive(returned(20, 1, 1, 2));
  EXPECT_FALSE(actor.ready());
  actor.receive(returned(20, 0, 0, 2));
  EXPECT_THAT(actor.begin().output_slots, ElementsAre(0));
}

TEST(Actor, AnActorRunsOneActAtATime) {
  Actor actor(middle(2, {2}));
  actor.receive(ready(10, 0, 0));
  actor.receive(ready(10, 1, 1));
  actor.begin();
  EXPECT_FALSE(actor.ready());
  EXPECT_EQ(actor.waits_for(), "acts on iteration 0");
  std::vector<Message> messages;
  actor.finish(messages);
  EXPECT_TRUE(actor.ready());
}

TEST(Actor, MessagesThatArriveDuringAnActCountAfterIt) {
  Actor actor(middle(1, {2}));
  actor.receive(ready(10, 0, 0));
  act(actor);
  actor.receive(returned(20, 0, 0, 2));
  actor.receive(ready(10, 0, 1));
  actor.begin();
  actor.receive(ready(10, 1, 2));
  std::vector<Message> messages;
  actor.finish(messages);
  EXPECT_EQ(actor.waits_for(), "waits for a free slot of register 20, held by actor 2");
  actor.receive(returned(20, 0, 1, 2));
  EXPECT_TRUE(actor.ready());
}

TEST(Actor, ASourceActsUntilItsSlotsAreFull) {
  Actor actor({.id = 1, .name = "source", .inputs = {}, .outputs = {{20, 3, {2}}}});
  int acts = 0;
  for (; actor.ready(); ++acts) act(actor);
  EXPECT_EQ(acts, 3);
}

TEST(Actor, SaysWhatItWaitsFor) {
  Actor actor({.id = 3,
               .name = "join",
               .inputs = {{7, 1}, {8, 2}},
               .outputs = {{4, 1, {5, 6}}, {9, 1, {}}}});
  EXPECT_EQ(
      actor.waits_for(),
      "waits for register 7 of actor 1, iteration 0; waits for register 8 of actor 2, iteration 0");
  actor.receive({Kind::kReady, 3, 7, 0, 0, 1});
  EXPECT_EQ(actor.waits_for(), "waits for register 8 of actor 2, iteration 0");
  actor.receive({Kind::kReady, 3, 8, 0, 0, 2});
  EXPECT_EQ(actor.waits_for(), "ready");
  act(actor);
  actor.receive({Kind::kReady, 3, 7, 0, 1, 1});
  actor.receive({Kind::kReady, 3, 8, 0, 1, 2});
  EXPECT_EQ(actor.waits_for(), "waits for a free slot of register 4, held by actors 5, 6");
  actor.receive({Kind::kReleased, 3, 4, 0, 0, 5});
  EXPECT_EQ(actor.waits_for(), "waits for a free slot of register 4, held by actor 6");
}

TEST(Actor, SaysWhoHoldsSlotsOfARegister) {
  Actor actor(middle(2, {2, 5}));
  for (int slot : {0, 1}) {
    actor.receive(ready(10, slot, slot));
    act(actor);
  }
  EXPECT_THAT(actor.holders(20), ElementsAre(2, 5));
  actor.receive(returned(20, 0, 0, 2));
  EXPECT_THAT(actor.holders(20), ElementsAre(2, 5));  // 2 still holds slot 1
  actor.receive(returned(20, 1, 1, 2));
  EXPECT_THAT(actor.holders(20), ElementsAre(5));
  EXPECT_THROW(actor.holders(10), InternalError);  // read, not written
}

TEST(Actor, ARegisterIsReleasedWhenAllReadersExceptOneHaveReleasedEverySlot) {
  Actor actor(middle(2, {2, 5}));
  EXPECT_TRUE(actor.is_released(20, 5));
  actor.receive(ready(10, 0, 0));
  act(actor);
  EXPECT_FALSE(actor.is_released(20, 5));
  actor.receive(returned(20, 0, 0, 2));
  EXPECT_TRUE(actor.is_released(20, 5));
  EXPECT_FALSE(actor.is_released(20, 2));  // 5 has it
  EXPECT_THROW(actor.is_released(10, 2), InternalError);
}

TEST(Actor, SaysWhichInputHasArrived) {
  Actor actor({.id = 3, .name = "join", .inputs = {{7, 1}, {8, 2}}, .outputs = {}});
  actor.receive({Kind::kReady, 3, 8, 0, 0, 2});
  actor.receive({Kind::kReady, 3, 7, 1, 1, 1});  // the iteration after the next
  EXPECT_FALSE(actor.has_input(0));
  EXPECT_TRUE(actor.has_input(1));
}

TEST(Actor, IsQuiescentWhenAllSlotsAreReleasedAndNoInputWaits) {
  Actor actor(middle(2, {2}));
  EXPECT_TRUE(actor.is_quiescent());
  actor.receive(ready(10, 0, 0));
  EXPECT_FALSE(actor.is_quiescent());  // an input waits
  actor.begin();
  EXPECT_FALSE(actor.is_quiescent());  // an act is in flight
  std::vector<Message> messages;
  actor.finish(messages);
  EXPECT_FALSE(actor.is_quiescent());  // slot 0 is out
  actor.receive(returned(20, 0, 0, 2));
  EXPECT_TRUE(actor.is_quiescent());
}

/// Actor 1 acts for each of three micro-batches: it reads register 10 in all of them and register
/// 11 in each, and fills register 20 with all of them, for actor 2.
ActorDescription by_micro_batch() {
  return {.id = 1,
          .name = "backward",
          .inputs = {{.reg = 10, .producer = 0, .acts_per_slot = 3}, {.reg = 11, .producer = 0}},
          .outputs = {{.reg = 20, .slots = 1, .consumers = {2}, .acts_per_slot = 3}}};
}

TEST(Actor, ReadsASlotInSeveralActsBeforeItReleasesIt) {
  Actor actor(by_micro_batch());
  actor.receive(ready(10, 0, 0));
  std::vector<Message> messages;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(actor.ready());
    actor.receive(ready(11, 0, i));
    ASSERT_TRUE(actor.ready());
    messages = act(actor);
    // After each act the slot of register 11 is released.
    EXPECT_EQ(messages.back(), (Message{Kind::kReleased, 0, 11, 0, i, 1}));
    EXPECT_EQ(messages.size(), i < 2 ? 1u : 3u);
  }
  EXPECT_THAT(messages, ElementsAre(Message{Kind::kReady, 2, 20, 0, 0, 1},
                                    Message{Kind::kReleased, 0, 10, 0, 0, 1},
                                    Message{Kind::kReleased, 0, 11, 0, 2, 1}));
  // The next step needs a new weight.
  actor.receive(ready(11, 0, 3));
  EXPECT_FALSE(actor.has_input(0));
  actor.receive(ready(10, 0, 1));
  EXPECT_FALSE(actor.ready()) << "register 20 is not released";
  actor.receive(returned(20, 0, 0, 2));
  EXPECT_TRUE(actor.ready());
}

TEST(Actor, IsNotQuiescentWhileASlotIsFilledInPart) {
  ActorDescription description = by_micro_batch();
  description.inputs.clear();
  description.outputs[0].consumers.clear();
  Actor actor(description);
  act(actor);
  EXPECT_FALSE(actor.is_quiescent());
  act(actor);
  act(actor);
  EXPECT_TRUE(actor.is_quiescent());
}

TEST(Actor, RefusesASlotThatNoActReadsOrFills) {
  ActorDescription description = by_micro_batch();
  description.inputs[0].acts_per_slot = 0;
  EXPECT_THAT([&] { Actor{description}; },
              ThrowsMessage<InternalError>(HasSubstr("does not read register 10")));
  description = by_micro_batch();
  description.outputs[0].acts_per_slot = 0;
  EXPECT_THAT([&] { Actor{description}; },
              ThrowsMessage<InternalError>(HasSubstr("does not fill register 20")));
}

TEST(Actor, RefusesADescriptionThatNamesAPortTwiceOrHasNoSlot) {
  const auto making = [](ActorDescription description) {
    return [description] { Actor actor(description); };
  };
  EXPECT_THAT(
      making({1, "x", {{7, 0}, {7, 2}}, {}}),
      ThrowsMessage<InternalError>("internal error: actor 1 'x' consumes a register twice"));
  EXPECT_THAT(
      making({1, "x", {}, {{7, 1, {}}, {7, 1, {}}}}),
      ThrowsMessage<InternalError>("internal error: actor 1 'x' produces a register twice"));
  EXPECT_THAT(making({1, "x", {}, {{7, 0, {2}}}}),
              ThrowsMessage<InternalError>("internal error: actor 1 'x' register 7 has no slot"));
  EXPECT_THAT(making({1, "x", {}, {{7, 1, {2, 3, 2}}}}),
              ThrowsMessage<InternalError>(
                  "internal error: actor 1 'x' register 7 names a consumer twice"));
}

/// An actor whose output slot 0 with iteration 0 is held by 2 and 5; iteration 1 of register 10
/// waits in slot 1.
Actor used_actor() {
  Actor actor(middle(2, {2, 5}));
  actor.receive(ready(10, 0, 0));
  act(actor);
  actor.receive(ready(10, 1, 1));
  return actor;
}

void expect_refused(const Message& message, const std::string& why) {
  Actor actor = used_actor();
  EXPECT_THAT([&] { actor.receive(message); },
              ThrowsMessage<InternalError>("internal error: actor 1 'middle' " + why));
}

TEST(Actor, RefusesMessagesThatAreNotForIt) {
  expect_refused({Kind::kReady, 4, 10, 0, 2, 0}, "got a message for actor 4");
  expect_refused(ready(20, 0, 2), "does not consume register 20");
  expect_refused(returned(10, 0, 0, 2), "does not produce register 10");
}

TEST(Actor, RefusesARepeatedIterationAndAFullSlot) {
  expect_refused(ready(10, 0, 0), "got iteration 0 of register 10 twice");  // used and released
  expect_refused(ready(10, 0, 1), "got iteration 1 of register 10 twice");  // waits
  expect_refused(ready(10, 1, 2), "got slot 1 of register 10 while it is full");
  expect_refused(ready(10, -1, 2), "got slot -1 of register 10");
}

TEST(Actor, RefusesASlotFromAnActorThatDoesNotHoldIt) {
  const std::string rest = ", which does not hold it";
  expect_refused(
      returned(20, 1, 1, 2),
      "got back slot 1 of register 20 with iteration 1 from actor 2" + rest);  // never went out
  expect_refused(
      returned(20, 1, -1, 2),
      "got back slot 1 of register 20 with iteration -1 from actor 2" + rest);  // never went out
  expect_refused(
      returned(20, 2, 0, 2),
      "got back slot 2 of register 20 with iteration 0 from actor 2" + rest);  // there is no slot 2
  expect_refused(returned(20, -1, 0, 2),
                 "got back slot -1 of register 20 with iteration 0 from actor 2" + rest);
  expect_refused(
      returned(20, 0, 2, 2),
      "got back slot 0 of register 20 with iteration 2 from actor 2" + rest);  // another iteration
  expect_refused(
      returned(20, 0, 0, 4),
      "got back slot 0 of register 20 with iteration 0 from actor 4" + rest);  // not a consumer
  Actor actor = used_actor();
  actor.receive(returned(20, 0, 0, 2));
  EXPECT_THAT([&] { actor.receive(returned(20, 0, 0, 2)); },
              ThrowsMessage<InternalError>(HasSubstr("from actor 2" + rest)));
}

TEST(Actor, RefusesToBeginWhenNotReadyAndToFinishWithoutBegin) {
  Actor actor(middle(1, {2}));
  std::vector<Message> messages;
  EXPECT_THAT([&] { actor.begin(); },
              ThrowsMessage<InternalError>("internal error: actor 1 'middle' begins while it waits "
                                           "for register 10 of actor 0, iteration 0"));
  EXPECT_THAT([&] { actor.finish(messages); },
              ThrowsMessage<InternalError>(
                  "internal error: actor 1 'middle' ends an act that it did not begin"));
  actor.receive(ready(10, 0, 0));
  actor.receive(ready(10, 1, 1));
  actor.begin();
  EXPECT_THAT([&] { actor.begin(); },
              ThrowsMessage<InternalError>(
                  "internal error: actor 1 'middle' begins while it acts on iteration 0"));
}

/// Allocations of `acts` acts of an actor whose producer uses `in_slots` slots.
int64_t allocations_of(Actor& actor, std::vector<Message>& messages, int in_slots, int64_t first,
                       int64_t acts) {
  const int64_t before = allocations;
  for (int64_t iteration = first; iteration < first + acts; ++iteration) {
    actor.receive(ready(10, static_cast<int>(iteration % in_slots), iteration));
    actor.begin();
    messages.clear();
    actor.finish(messages);
    for (ActorId consumer : {2, 5})
      actor.receive(returned(20, static_cast<int>(iteration % 2), iteration, consumer));
  }
  return allocations - before;
}

TEST(Actor, AllocatesNothingAfterItsConstructor) {
  Actor actor(middle(2, {2, 5}));
  std::vector<Message> messages;
  messages.reserve(3);  // two kReady and a kReleased
  EXPECT_EQ(allocations_of(actor, messages, 2, 0, 100), 0);
}

TEST(Actor, ManySlotsAllocateOnlyInTheFirstRound) {
  Actor actor(middle(2, {2, 5}));
  std::vector<Message> messages;
  messages.reserve(3);
  EXPECT_GT(allocations_of(actor, messages, 64, 0, 64), 0);
  EXPECT_EQ(allocations_of(actor, messages, 64, 64, 128), 0);
}

}  // namespace
}  // namespace tessera
