// A run that stops and goes on is the run that never stopped; and whatever plan stored a checkpoint, any other loads it.
#include "engine/checkpointing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/simulated_disk.h"
#include "engine/runs_for_tests.h"

namespace tessera {
namespace {

using testing::HasSubstr;

std::vector<double> losses(Engine& engine, int64_t steps) {
  std::vector<double> list;
  for (const StepResult& result : engine.fit(steps)) list.push_back(result.loss);
  return list;
}

Engine engine_of(const std::string& plan, const RunConfig& config = tiny_gpt(), Purpose purpose = Purpose::kTrain) {
  return Engine(config, plan_of("gpt", plan), small_text(), {.runtime = {}, .purpose = purpose, .draw = false});
}

void save(Engine& engine, FileSystem& disk, int keep_last = 0) {
  CheckpointFolder folder(disk, "c");
  save_checkpoint(engine, folder, keep_last);
}

TEST(Checkpointing, ResumedLossesAreThoseOfTheRunThatNeverStopped) {
  for (const char* plan : {"serial", "dp2-tp2", "pp2-dp2-m3"}) {
    SimulatedDisk disk;
    Engine whole(tiny_gpt(), plan_of("gpt", plan), small_text());
    whole.fit(5);
    save(whole, disk);
    const std::vector<double> expected = losses(whole, 5);
    Engine resumed = engine_of(plan);
    restore(resumed, Checkpoint(disk, find_checkpoint(disk, "c")));
    EXPECT_EQ(resumed.step_count(), 5);
    EXPECT_EQ(losses(resumed, 5), expected) << plan;  // to the last bit: the same numbers in the same order
  }
}

}  // namespace
}  // namespace tessera
