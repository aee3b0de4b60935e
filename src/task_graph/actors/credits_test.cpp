// Pipelines on the simulated clock without order lists: slots, the credits of actors, are all that
// decides the order. Micro-batches are acts of the same actors; weights are read in all of them,
// and gradients are accumulated over them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "task_graph/actors/simulated_run.h"

namespace tessera {
namespace {

using testing::ElementsAre;

constexpr int kStages = 4;
constexpr int kMicroBatches = 8;

/// Four actors a stage: the feed makes the weight readable once a step; the optimizer takes the
/// gradient, which all micro-batches fill, once a step.
enum StageActor { kFeed, kForward, kBackward, kOptimizer, kKinds };
ActorId actor_of(int stage, StageActor kind) {
  return kKinds * stage + kind;
}
StageActor kind_of(ActorId id) {
  return static_cast<StageActor>(id % kKinds);
}
int stage_of(ActorId id) {
  return id / kKinds;
}

enum Of { kWeight, kActivations, kSent, kSentBack, kGradient, kOfStage };
RegisterId register_of(int stage, Of of) {
  return kOfStage * stage + of;
}

/// A pipeline in which stage s has `credits(s)` slots for activations, which live from the forward
/// to the backward of a micro-batch. What is sent between stages has a slot for each micro-batch,
/// so that it limits nothing.
template <class Credits>
std::vector<ActorDescription> pipeline(const Credits& credits) {
  std::vector<ActorDescription> actors;
  for (int s = 0; s < kStages; ++s) {
    const ActorId feed = actor_of(s, kFeed), forward = actor_of(s, kForward);
    const ActorId backward = actor_of(s, kBackward), optimizer = actor_of(s, kOptimizer);
    const bool is_first = s == 0, is_last = s + 1 == kStages;
    actors.push_back({feed, "feed", {}, {{register_of(s, kWeight), 1, {forward}}}});
    ActorDescription f{forward, "F", {{register_of(s, kWeight), feed, kMicroBatches}}, {}};
    ActorDescription b{backward, "B", {{register_of(s, kActivations), forward}}, {}};
    f.outputs.push_back({register_of(s, kActivations), credits(s), {backward}});
    b.outputs.push_back({register_of(s, kGradient), 1, {optimizer}, kMicroBatches});
    if (!is_first) {
      f.inputs.push_back({register_of(s - 1, kSent), actor_of(s - 1, kForward)});
      const ActorId before = actor_of(s - 1, kBackward);
      b.outputs.push_back({register_of(s, kSentBack), kMicroBatches, {before}});
    }
    if (!is_last) {
      f.outputs.push_back({register_of(s, kSent), kMicroBatches, {actor_of(s + 1, kForward)}});
      b.inputs.push_back({register_of(s + 1, kSentBack), actor_of(s + 1, kBackward)});
    }
    actors.push_back(std::move(f));
    actors.push_back(std::move(b));
    actors.push_back({optimizer, "O", {{register_of(s, kGradient), backward}}, {}});
  }
  return actors;
}

/// A forward takes one unit, a backward two, the others nothing.
int64_t duration(ActorId id) {
  switch (kind_of(id)) {
    case kForward: return 1;
    case kBackward: return 2;
    default: return 0;
  }
}

/// Each stage is a device without an order list, which prefers the backward. Its forwards start as
/// soon as they have their input and a slot.
SimulatedRun run_by_credits(int64_t steps) {
  SimulatedSetting setting;
  setting.is_ordered = false;
  setting.barrier_between_iterations = true;
  setting.duration = duration;
  for (int s = 0; s < kStages; ++s) {
    setting.streams.push_back({actor_of(s, kFeed), actor_of(s, kBackward), actor_of(s, kForward),
                               actor_of(s, kOptimizer)});
    for (int64_t acts : {1, kMicroBatches, kMicroBatches, 1})
      setting.acts_per_iteration.push_back(acts);
  }
  return simulate_actors(pipeline([](int s) { return kStages - s; }), steps, setting);
}

/// All forwards of a stage come before its backwards, by order lists.
SimulatedRun run_forward_then_backward() {
  SimulatedSetting setting;
  setting.duration = duration;
  for (int s = 0; s < kStages; ++s) {
    std::vector<ActorId>& order = setting.streams.emplace_back();
    order.push_back(actor_of(s, kFeed));
    order.insert(order.end(), kMicroBatches, actor_of(s, kForward));
    order.insert(order.end(), kMicroBatches, actor_of(s, kBackward));
    order.push_back(actor_of(s, kOptimizer));
  }
  return simulate_actors(pipeline([](int) { return kMicroBatches; }), 1, setting);
}

/// The forwards and backwards of a stage in the order in which they began: "F0 F1 B0".
std::string order_of(const SimulatedRun& run, int stage) {
  std::string text;
  for (const SimulatedAct& act : run.acts) {
    if (stage_of(act.actor) != stage || duration(act.actor) == 0) continue;
    text += (text.empty() ? "" : " ") + std::string(kind_of(act.actor) == kForward ? "F" : "B") +
            std::to_string(act.act.iteration);
  }
  return text;
}

/// The most micro-batches whose activations the stage holds at a time: from the begin of the
/// forward to the end of the backward.
int peak_of(const SimulatedRun& run, int stage) {
  std::map<int64_t, int> change;  // at a time, those that end there first
  for (const SimulatedAct& act : run.acts) {
    if (stage_of(act.actor) != stage) continue;
    if (kind_of(act.actor) == kForward) ++change[act.start];
    if (kind_of(act.actor) == kBackward) --change[act.end];
  }
  int held = 0, peak = 0;
  for (const auto& [time, count] : change) peak = std::max(peak, held += count);
  return peak;
}

std::vector<int> peaks_of(const SimulatedRun& run) {
  std::vector<int> peaks;
  for (int s = 0; s < kStages; ++s) peaks.push_back(peak_of(run, s));
  return peaks;
}

TEST(Credits, OneForwardOneBackwardFollowsFromAsManySlotsAsStagesAreLeft) {
  const SimulatedRun run = run_by_credits(1);
  EXPECT_EQ(order_of(run, 0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  EXPECT_EQ(order_of(run, 1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
  EXPECT_EQ(order_of(run, 2), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7");
  EXPECT_EQ(order_of(run, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST(Credits, TheStepTakesAsLongAsThatOfTheSchedule) {
  // 1F1B: (m + p - 1)(f + b) = (8 + 3) * 3, as all forwards then all backwards.
  EXPECT_EQ(run_by_credits(1).duration, 33);
  EXPECT_EQ(run_forward_then_backward().duration, 33);
}

TEST(Credits, ActivationsTakeAtLeastThreeEighthsLessThanWithAllForwardsFirst) {
  const std::vector<int> by_credits = peaks_of(run_by_credits(1));
  const std::vector<int> all_first = peaks_of(run_forward_then_backward());
  EXPECT_THAT(by_credits, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(all_first, ElementsAre(8, 8, 8, 8));
  for (int s = 0; s < kStages; ++s) EXPECT_LE(8 * by_credits[s], 5 * all_first[s]) << s;
}

TEST(Credits, EveryStepReadsItsWeightsAndFillsItsGradientsOnce) {
  const SimulatedRun run = run_by_credits(3);
  EXPECT_TRUE(run.is_quiescent);
  EXPECT_EQ(run.duration, 3 * 33);
  std::map<RegisterId, int> filled;
  for (const SimulatedMessage& it : run.messages)
    if (it.message.kind == Message::Kind::kReady) ++filled[it.message.reg];
  for (int s = 0; s < kStages; ++s) {
    EXPECT_EQ(filled[register_of(s, kWeight)], 3);
    EXPECT_EQ(filled[register_of(s, kGradient)], 3);
    EXPECT_EQ(filled[register_of(s, kActivations)], 3 * kMicroBatches);
  }
}

}  // namespace
}  // namespace tessera
