#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/testing/error.h"
#include "training/checkpoint/testing/simulated_disk.h"
#include "training/engine/checkpointing.h"
#include "training/engine/testing/losses.h"
#include "training/engine/testing/own_network.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

using error_testing::message_of;

/// How to make an engine of one network and data under a plan.
struct Subject {
  std::string model;  // of training/engine/testing/runs.h; "": the own network

  Plan plan(const std::string& name) const {
    return model.empty() ? distance_plan(name) : plan_of(model, name);
  }
  Engine engine(const std::string& plan_name, bool initialize = true) const {
    EngineOptions options;
    options.initialize = initialize;
    if (model.empty())
      return Engine(distance_network(), distance_settings(), plan(plan_name), pairs_of_points(),
                    options);
    return Engine(config(), plan(plan_name), small_text(), options);
  }

 private:
  RunConfig config() const {
    RunConfig run = tiny_run(model);
    run.data.shuffle = Shuffle::kAfterSplit;  // so that the parts of the data matter
    return run;
  }
};

bool switch_plan_same_bits(const TensorMap& a, const TensorMap& b) {
  return a.size() == b.size() && std::ranges::all_of(a, [&](const auto& entry) {
           const auto& [name, tensor] = entry;
           return std::memcmp(tensor.data(), b.at(name).data(),
                              static_cast<size_t>(byte_size(tensor.type()).value())) == 0;
         });
}

/// Switches at step 3 of 6, and compares with a run that is saved there and resumed elsewhere.
void expect_the_bits_of_a_resumed_run(const Subject& subject, const std::string& from,
                                      const std::string& to) {
  SCOPED_TRACE(subject.model + " from " + from + " to " + to);
  SimulatedDisk disk;
  CheckpointFolder folder(disk, "run");
  Engine engine = subject.engine(from);
  fit(engine, 3);
  save_checkpoint(engine, folder, 0);

  Engine resumed = subject.engine(to, false);
  restore(resumed, Checkpoint(disk, folder.path_of(3)));

  engine.switch_plan(subject.plan(to));
  EXPECT_EQ(engine.plan().name, to);
  EXPECT_EQ(engine.runtime().ranks(), subject.plan(to).rank_count());
  EXPECT_EQ(engine.step_count(), 3);
  EXPECT_EQ(engine.position().batch, 3);
  EXPECT_EQ(losses(engine, 3), losses(resumed, 3));
  EXPECT_TRUE(switch_plan_same_bits(engine.variables(), resumed.variables()));
  EXPECT_EQ(engine.position().parts, resumed.position().parts);
  EXPECT_EQ(engine.evaluate(2).loss, resumed.evaluate(2).loss);
}

// Dropout is on in both networks, so that the numbers of the steps matter.
TEST(SwitchPlan, GoesOnWithTheBitsOfARunThatIsSavedAndResumedElsewhere) {
  for (const auto& [from, to] :
       {std::pair{"dp2", "tp2"}, {"tp2", "dp3"}, {"serial", "pp2-m2"}, {"pp2-m2", "serial"}})
    expect_the_bits_of_a_resumed_run({.model = "gpt"}, from, to);
  for (const auto& [from, to] :
       {std::pair{"serial", "dp2-tp2"}, {"dp2-tp2", "pp2-m3"}, {"pp2", "dp2"}})
    expect_the_bits_of_a_resumed_run({}, from, to);
}

TEST(SwitchPlan, BackToTheFirstPlanIsAsIfNothingHadHappened) {
  Engine switched = Subject{}.engine("dp2"), stayed = Subject{}.engine("dp2");
  fit(switched, 2);
  switched.switch_plan(distance_plan("tp2"));
  switched.switch_plan(distance_plan("dp2"));
  const std::vector<double> all = losses(stayed, 5);
  EXPECT_EQ(losses(switched, 3), (std::vector<double>{all.begin() + 2, all.end()}));
}

TEST(SwitchPlan, KeepsTheLearningRateThatWasSetAndTheBatchThatWasTaken) {
  Engine engine = Subject{}.engine("dp2");
  engine.set_learning_rate(0.5);
  const Batch& batch = engine.next_batch();
  const float first = batch.row<float>("left", 0)[0];
  engine.switch_plan(serial_plan());
  EXPECT_EQ(batch.row<float>("left", 0)[0], first);
  EXPECT_EQ(engine.position().batch, 1);
  EXPECT_EQ(engine.step(batch).learning_rate, 0.5);
}

TEST(SwitchPlan, AnEngineThatOnlyEvaluatesGivesTheSameLossUpToRounding) {
  EngineOptions options;
  options.purpose = Purpose::kEvaluate;
  Engine engine(distance_network(), distance_settings(), serial_plan(), pairs_of_points(), options);
  const double before = engine.evaluate(3).loss;
  engine.switch_plan(distance_plan("tp2"));
  EXPECT_NEAR(engine.evaluate(3).loss, before, 16 * 0x1p-24 * before);
}

TEST(SwitchPlan, APlanThatIsRefusedLeavesTheRunAsItWas) {
  Engine engine = Subject{}.engine("dp2"), stayed = Subject{}.engine("dp2");
  fit(engine, 2);
  Plan wrong = distance_plan("tp2");
  wrong.marks.push_back(shard_tensor("third.weight", "P(\"tp\")"));
  EXPECT_THAT(message_of(ExitCode::kBadConfig, [&] { engine.switch_plan(wrong); }),
              testing::HasSubstr("third.weight"));
  EXPECT_EQ(engine.plan().name, "dp2");
  const std::vector<double> all = losses(stayed, 4);
  EXPECT_EQ(losses(engine, 2), (std::vector<double>{all.begin() + 2, all.end()}));
}

TEST(SwitchPlan, BelongsBetweenStepsWithoutGradientsThatWait) {
  Engine engine = Subject{}.engine("serial");
  engine.begin_step();
  EXPECT_THAT(message_of(ExitCode::kUsage, [&] { engine.switch_plan(serial_plan()); }),
              testing::StartsWith("switch_plan() was called while a step was in flight"));
  engine.end_step();
  engine.accumulate(engine.next_batch());
  EXPECT_THAT(message_of(ExitCode::kUsage, [&] { engine.switch_plan(serial_plan()); }),
              testing::StartsWith("switch_plan() was called with gradients that were not applied"));
}

}  // namespace
}  // namespace tessera
