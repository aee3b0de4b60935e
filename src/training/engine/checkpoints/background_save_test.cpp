// A save in the background stores the state of its step while training goes on, and the run and its
// files are those of a run that waits. checkpointing_faults_test.cpp has the faults of the disk.
#include "training/engine/checkpoints/background_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "base/testing/error.h"
#include "base/testing/log_level.h"
#include "runtime/comm/network.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"
#include "training/checkpoint/testing/simulated_disk.h"
#include "training/engine/checkpointing.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

using error_testing::message_of;
using testing::HasSubstr;

/// The bytes of every file below a folder, by path.
std::map<std::string, std::string> files_of(FileSystem& disk, const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const std::string& name : disk.list(folder)) {
    if (disk.is_folder(folder / name))
      files.merge(files_of(disk, folder / name));
    else
      files[(folder / name).string()] = read_whole(disk, folder / name);
  }
  return files;
}

std::vector<double> losses_of_steps(Engine& engine, int64_t steps) {
  std::vector<double> list;
  for (int64_t step = 0; step < steps; ++step) list.push_back(engine.step().loss);
  return list;
}

/// The files and losses of three steps, a save while training waits, and two steps.
struct Expected {
  explicit Expected(const std::string& plan) {
    Engine engine(tiny_gpt(), plan_of("gpt", plan), small_text());
    all = losses_of_steps(engine, 3);
    CheckpointFolder folder(disk, "c");
    save_checkpoint(engine, folder, 0);
    for (double loss : losses_of_steps(engine, 2)) all.push_back(loss);
    files = files_of(disk, "c");
  }
  SimulatedDisk disk;
  std::vector<double> all;
  std::map<std::string, std::string> files;
};

TEST(BackgroundSave, FilesAndLossesAreThoseOfARunThatWaits) {
  for (const std::string plan : {"serial", "dp2-tp2", "pp2"}) {
    const Expected expected(plan);
    SimulatedDisk disk;
    CheckpointFolder folder(disk, "c");
    Engine engine(tiny_gpt(), plan_of("gpt", plan), small_text());
    BackgroundSave save(engine, folder);
    std::vector<double> all = losses_of_steps(engine, 3);
    disk.hold();
    save.begin(0);
    for (double loss : losses_of_steps(engine, 2)) all.push_back(loss);
    save.poll();
    EXPECT_TRUE(save.is_pending()) << "nothing can be stored while the disk is held";
    EXPECT_TRUE(save.is_writing());
    EXPECT_EQ(folder.latest(), std::nullopt);
    disk.release();
    save.finish();
    EXPECT_FALSE(save.is_pending());
    EXPECT_EQ(all, expected.all) << plan;
    EXPECT_EQ(files_of(disk, "c"), expected.files) << plan;
  }
}

TEST(BackgroundSave, ASecondSaveFollowsTheFirstAndEachHasItsOwnState) {
  Engine engine(tiny_mlp(), plan_of("mlp", "tp2"), small_text());
  SimulatedDisk disk, waiting;
  CheckpointFolder folder(disk, "c"), other(waiting, "c");
  BackgroundSave save(engine, folder);
  for (int step = 0; step < 3; ++step) {
    save_checkpoint(engine, other, 2);
    save.begin(2);
    engine.step();
  }
  save.finish();
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(files_of(disk, "c"), files_of(waiting, "c"));
}

TEST(BackgroundSave, PollEndsItWithoutWaiting) {
  Engine engine(tiny_mlp(), plan_of("mlp", "serial"), small_text());
  SimulatedDisk disk;
  CheckpointFolder folder(disk, "c");
  BackgroundSave save(engine, folder);
  save.poll();  // nothing is pending
  save.begin(0);
  while (save.is_pending()) {
    engine.step();
    save.poll();
  }
  EXPECT_EQ(folder.latest(), 0);
}

TEST(BackgroundSave, ADiskThatFailsIsAnErrorOnceAndTheNextSaveIsGood) {
  Engine engine(tiny_mlp(), plan_of("mlp", "tp2"), small_text());
  SimulatedDisk disk;
  CheckpointFolder folder(disk, "c");
  BackgroundSave save(engine, folder);
  save.begin(0);
  save.finish();
  engine.step();
  disk.arm({Fault::Kind::kFail, 20});
  save.begin(0);
  engine.step();
  while (save.is_writing()) std::this_thread::yield();
  EXPECT_THROW(save.poll(), UserError);
  EXPECT_FALSE(save.is_pending());
  EXPECT_NO_THROW(save.finish());
  EXPECT_EQ(folder.latest(), 0);
  save.begin(0);
  save.finish();
  EXPECT_EQ(folder.latest(), 2);
}

TEST(BackgroundSave, ValuesThatAreNotFiniteReplaceNothing) {
  Engine engine(tiny_mlp(), plan_of("mlp", "tp2"), small_text());
  SimulatedDisk disk;
  CheckpointFolder folder(disk, "c");
  BackgroundSave save(engine, folder);
  save.begin(1);
  engine.step();
  save.finish();
  const auto good = files_of(disk, "c/step-00000000");
  Tensor bad = engine.runtime().variable("head.weight");
  bad.values<float>()[3] = std::numeric_limits<float>::infinity();
  engine.runtime().set_variable("head.weight", bad);
  save.begin(1);
  EXPECT_THAT(message_of([&] { save.finish(); }),
              HasSubstr("the checkpoint of step 1 is not stored: 'head.weight' has values that are "
                        "not finite"));
  EXPECT_EQ(folder.latest(), 0);
  EXPECT_EQ(files_of(disk, "c/step-00000000"), good);
}

TEST(BackgroundSave, IsRefusedWhileAStepIsInFlight) {
  Engine engine(tiny_mlp(), plan_of("mlp", "serial"), small_text());
  SimulatedDisk disk;
  CheckpointFolder folder(disk, "c");
  BackgroundSave save(engine, folder);
  engine.begin_step();
  EXPECT_THROW(save.begin(0), UserError);
  engine.end_step();
}

TEST(BackgroundSave, GoesOnUnderAnotherPlanOfTheSameEngine) {
  Engine engine(tiny_gpt(), plan_of("gpt", "dp2-tp2"), small_text());
  SimulatedDisk disk, waiting;
  CheckpointFolder folder(disk, "c"), other(waiting, "c");
  BackgroundSave save(engine, folder);
  save.begin(0);
  engine.switch_plan(plan_of("gpt", "tp4"));
  engine.step();
  save.begin(0);
  save.finish();
  save_checkpoint(engine, other, 0);
  EXPECT_EQ(files_of(disk, "c/step-00000001"), files_of(waiting, "c/step-00000001"));
  EXPECT_NO_THROW(Checkpoint(disk, folder.path_of(0)).verify());
}

TEST(BackgroundSave, FitFinishesItAtTheEndAndAfterAnError) {
  for (const bool fails : {false, true}) {
    Engine engine(tiny_mlp(), plan_of("mlp", "tp2"), small_text());
    SimulatedDisk disk;
    CheckpointFolder folder(disk, "c");
    BackgroundSave save(engine, folder);
    FitOptions options{.steps = 3, .save_every = 2, .save = [&](Engine&) {
                         save.begin(0);
                         // The loss of the next step is not a number.
                         if (fails) engine.set_learning_rate(std::numeric_limits<float>::max());
                       }};
    options.finish_saves = [&] { save.finish(); };
    if (fails) options.steps = 9;
    const auto run = [&] { fit(engine, options); };
    if (fails) {
      EXPECT_THROW(run(), UserError);
    } else {
      run();
    }
    EXPECT_FALSE(save.is_pending());
    EXPECT_EQ(folder.steps(), fails ? (std::vector<int64_t>{2}) : (std::vector<int64_t>{2, 3}));
  }
}

/// Two processes with a rank each, as threads, on a common disk. `work` gets the engine.
void on_two_processes(const std::string& model,
                      const std::function<void(Engine&, bool is_leader)>& work) {
  testing_transport::on_processes(
      make_local_transports(2, 0, 1), [&](std::unique_ptr<Transport> mine) {
        const auto network = std::make_shared<ProcessNetwork>(std::move(mine));
        Engine engine(tiny_run(model), plan_of(model, "tp2"), small_text(),
                      {.runtime = {.deadline = Seconds(600), .network = network}});
        work(engine, network->process() == 0);
      });
}

TEST(BackgroundSave, ProcessesAgreeBetweenStepsAndStoreTheSameFiles) {
  const Expected expected("tp2");
  SimulatedDisk disk;
  on_two_processes("gpt", [&](Engine& engine, bool) {
    CheckpointFolder folder(disk, "c");
    BackgroundSave save(engine, folder);
    std::vector<double> all = losses_of_steps(engine, 3);
    save.begin(0);
    for (int step = 0; save.is_pending(); ++step) {
      const double loss = engine.step().loss;
      if (step < 2) all.push_back(loss);
      save.poll();
    }
    all.resize(std::min(all.size(), expected.all.size()));
    EXPECT_EQ(all, std::vector<double>(expected.all.begin(), expected.all.begin() + all.size()));
  });
  EXPECT_EQ(files_of(disk, "c"), expected.files);
}

/// Saves with an error at every write in turn. The failing process is any of them.
TEST(BackgroundSave, AnErrorOfOneProcessIsThatOfAllAndLosesNothing) {
  const LogLevelScope errors(LogLevel::kError);  // a leftover file is a warning
  SimulatedDisk disk;
  on_two_processes("mlp", [&](Engine& engine, bool is_leader) {
    Runtime& runtime = engine.runtime();
    CheckpointFolder folder(disk, "c");
    BackgroundSave save(engine, folder);
    save.begin(0);
    save.finish();
    engine.step();
    int failures = 0;
    for (int64_t write = 0, is_last = 0; is_last == 0; ++write) {
      runtime.on_all_processes([&] {
        if (is_leader) disk.arm({Fault::Kind::kFail, write});
      });
      save.begin(0);
      bool failed = false;
      try {
        save.poll();
        save.finish();
      } catch (const UserError&) {
        failed = true;
      }
      failures += failed;
      EXPECT_EQ(runtime.any(failed), failed) << "all processes know of the error";
      EXPECT_FALSE(save.is_pending());
      EXPECT_NO_THROW(Checkpoint(disk, folder.path_of(folder.latest().value())).verify());
      is_last = runtime.any(disk.writes() <= write) ? 1 : 0;
    }
    EXPECT_GT(failures, 20);
    EXPECT_EQ(folder.steps(), (std::vector<int64_t>{0, 1}));
  });
}

TEST(BackgroundSave, ValuesOfOneProcessThatAreNotFiniteEndTheSaveInAll) {
  SimulatedDisk disk;
  on_two_processes("mlp", [&](Engine& engine, bool) {
    CheckpointFolder folder(disk, "c");
    BackgroundSave save(engine, folder);
    Tensor bad = engine.runtime().variable("head.weight");
    bad.values<float>().back() = std::numeric_limits<float>::quiet_NaN();  // of the second rank
    engine.runtime().set_variable("head.weight", bad);
    save.begin(0);
    EXPECT_THAT(message_of([&] { save.finish(); }), HasSubstr("values that are not finite"));
    EXPECT_EQ(folder.latest(), std::nullopt);
  });
}

}  // namespace
}  // namespace tessera
