// A run that is stopped at any write of a checkpoint, or whose disk fails there, continues from
// that checkpoint or from the previous one, and its losses are those of an undisturbed run.
// checkpoint_faults_test.cpp shows the same for the files alone, in more situations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/testing/log_level.h"
#include "base/testing/waits.h"
#include "runtime/comm/network.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"
#include "training/checkpoint/testing/simulated_disk.h"
#include "training/engine/checkpointing.h"
#include "training/engine/checkpoints/background_save.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kOld = 2, kNew = 4, kEnd = 7;

/// Bytes of every variable, by name.
using Bytestrings = std::map<std::string, std::vector<std::byte>>;

Bytestrings bytes_of(const TensorMap& variables) {
  Bytestrings bytes;
  for (const auto& [name, tensor] : variables)
    bytes[name] = {tensor.data(), tensor.data() + byte_size(tensor.type()).value()};
  return bytes;
}

/// Reads, and so verifies, every byte.
Bytestrings bytes_of(const Checkpoint& checkpoint) {
  Bytestrings bytes;
  for (const auto& [name, stored] : checkpoint.index().tensors) {
    bytes[name].resize(byte_size(stored.whole).value());
    checkpoint.load_box(name, whole_box(stored.whole.shape), bytes[name].data());
  }
  return bytes;
}

RunConfig config() {
  RunConfig config = tiny_mlp();
  config.model.width = 8;
  return config;
}

Plan plan() {
  return plan_of("mlp", "tp2");
}

enum class SaveMode { kWhileTrainingWaits, kInBackground };

/// An undisturbed run up to its second checkpoint, and its results.
class Undisturbed {
 public:
  /// `way` is that of storing.
  explicit Undisturbed(SaveMode way = SaveMode::kWhileTrainingWaits)
      : way_(way), engine_(config(), plan(), small_text()) {
    fit(engine_, kOld);
    keep(disk_);
    fit(engine_, kNew - kOld);
    SimulatedDisk complete;
    keep(complete);
    Engine on(config(), plan(), small_text());
    for (const StepResult& result : fit(on, kEnd)) losses_.push_back(result.loss);
  }

  /// The disk before the second checkpoint.
  std::unique_ptr<SimulatedDisk> disk() const { return disk_.after(Crash::kProcessKilled); }

  /// Stores the second checkpoint.
  void save(FileSystem& disk) {
    CheckpointFolder folder(disk, "c");
    if (way_ == SaveMode::kWhileTrainingWaits) return save_checkpoint(engine_, folder, 1);
    BackgroundSave background(engine_, folder);
    background.begin(1);
    // The parameters that training changes next are not those that are stored.
    const Tensor now = engine_.runtime().variable(kChanged);
    engine_.runtime().set_variable(kChanged, Tensor(now.type()));
    try {
      background.finish();
    } catch (...) {
      engine_.runtime().set_variable(kChanged, now);
      throw;
    }
    engine_.runtime().set_variable(kChanged, now);
  }

  /// The step of the latest checkpoint. The checkpoint must hold the state that the run had at that
  /// step, to the last bit. Equal bytes and an equal state have equal losses, so the run is resumed
  /// only from the first checkpoint of each step that is found.
  int64_t checked_latest(FileSystem& disk) {
    const Checkpoint checkpoint(disk, find_checkpoint(disk, "c"));
    const int64_t step = checkpoint.step();
    EXPECT_TRUE(step == kOld || step == kNew);
    EXPECT_EQ(bytes_of(checkpoint), variables_.at(step)) << "step " << step;
    EXPECT_EQ(checkpoint.state(), states_.at(step)) << "step " << step;
    if (!resumed_[step]) resume(checkpoint);
    resumed_[step] = true;
    return step;
  }

  const std::map<int64_t, bool>& resumed() const { return resumed_; }
  Engine& engine() { return engine_; }

 private:
  void keep(SimulatedDisk& disk) {
    save(disk);
    variables_[engine_.step_count()] = bytes_of(engine_.variables());
    states_[engine_.step_count()] = Checkpoint(disk, find_checkpoint(disk, "c")).state();
  }

  void resume(const Checkpoint& checkpoint) {
    Engine engine(config(), plan(), small_text(), {.runtime = {}, .initialize = false});
    restore(engine, checkpoint);
    for (int64_t step = checkpoint.step(); step < kEnd; ++step)
      EXPECT_EQ(engine.step().loss, losses_[step]) << step;
  }

  static constexpr const char* kChanged = "head.weight";

  SaveMode way_;
  SimulatedDisk disk_;
  Engine engine_;
  std::map<int64_t, Bytestrings> variables_;
  std::map<int64_t, Document> states_;
  std::vector<double> losses_;
  std::map<int64_t, bool> resumed_;
};

enum class Ending { kDone, kFailed, kStopped };

Ending try_save(Undisturbed& run, FileSystem& disk) try {
  run.save(disk);
  return Ending::kDone;
} catch (const MachineStopped&) {
  return Ending::kStopped;
} catch (const UserError&) {
  return Ending::kFailed;
}

class CheckpointingFaults : public testing::TestWithParam<SaveMode> {};

INSTANTIATE_TEST_SUITE_P(Ways, CheckpointingFaults,
                         testing::Values(SaveMode::kWhileTrainingWaits, SaveMode::kInBackground),
                         [](const auto& way) {
                           return way.param == SaveMode::kInBackground ? "InBackground"
                                                                       : "WhileTrainingWaits";
                         });

TEST_P(CheckpointingFaults, AStopAtAnyWriteLosesNothing) {
  Undisturbed run(GetParam());
  for (const Fault::Kind kind : {Fault::Kind::kStop, Fault::Kind::kTorn})
    for (const Crash crash : {Crash::kProcessKilled, Crash::kPowerLost, Crash::kPowerLostNamesKept,
                              Crash::kPowerLostRemovalsKept}) {
      int64_t writes = 0;
      for (Ending ending = Ending::kStopped; ending == Ending::kStopped; ++writes) {
        const auto disk = run.disk();
        disk->arm({kind, writes});
        ending = try_save(run, *disk);
        const int64_t found = run.checked_latest(*disk->after(crash));
        if (ending == Ending::kDone) {
          EXPECT_EQ(found, kNew);
        }
      }
      EXPECT_GT(
          writes,
          30);  // two ranks, each with its file of some 20 tensors, the documents, the renames
    }
  EXPECT_EQ(run.resumed(),
            (std::map<int64_t, bool>{{kOld, true}, {kNew, true}}));  // both were found, and resumed
}

TEST_P(CheckpointingFaults, AWriteThatFailsIsAnErrorAndTheRunGoesOn) {
  const LogLevelScope errors(LogLevel::kError);  // a leftover file is a warning
  Undisturbed run(GetParam());
  for (const Fault::Kind kind : {Fault::Kind::kFail, Fault::Kind::kFull, Fault::Kind::kFlip}) {
    bool reached_the_end = false;
    int failures = 0;
    for (int64_t write = 0; !reached_the_end; ++write) {
      const auto disk = run.disk();
      disk->arm({kind, write});
      const Ending ending = try_save(run, *disk);
      failures += ending == Ending::kFailed;
      reached_the_end = disk->writes() <= write;
      const int64_t found = run.checked_latest(*disk);
      if (ending == Ending::kDone && kind != Fault::Kind::kFlip) {
        EXPECT_EQ(found, kNew);
      }
      disk->arm({});
      EXPECT_EQ(try_save(run, *disk), Ending::kDone) << "write " << write;
      EXPECT_EQ(run.checked_latest(*disk), kNew);
    }
    EXPECT_GT(failures, 5);
  }
  EXPECT_NO_THROW(run.engine().step());
}

TEST_P(CheckpointingFaults, ShortWritesAndReadsChangeNothing) {
  Undisturbed run(GetParam());
  const auto disk = run.disk();
  disk->limit_transfers(1000);
  EXPECT_EQ(try_save(run, *disk), Ending::kDone);
  EXPECT_EQ(run.checked_latest(*disk), kNew);
}

TEST(CheckpointingFaultsOfFiles, MembersWaitForOneWhoseDiskIsSlowerThanTheDeadline) {
  using Time = KeepAlive::Clock::time_point;
  constexpr int kDeadline = 600;
  for (const std::string slow :
       // of the second rank, and of the committing process
       {"rank-00001.safetensors", "index.json"}) {
    SimulatedDisk disk;
    std::atomic<int> seconds{1};  // of the simulated clock of both processes
    const auto now = [&] { return Time(std::chrono::seconds(seconds.load())); };
    std::array<std::atomic<ProcessNetwork*>, 2> networks{};
    const auto a_heartbeat_came = [&] {
      return std::ranges::any_of(networks, [&](const std::atomic<ProcessNetwork*>& network) {
        return network.load()->keep_alive().last_heard() == now();
      });
    };
    // It is slower than two deadlines.
    disk.slow_down(slow, [&] {
      bool is_heard = true;
      for (int i = 0; i < 10 && is_heard; ++i) {
        seconds += kDeadline / 4;
        is_heard = comes_true(a_heartbeat_came);
      }
      EXPECT_TRUE(is_heard) << slow;
    });
    testing_transport::on_processes(
        make_local_transports(2, 0, 1), [&](std::unique_ptr<Transport> mine) {
          const auto network = std::make_shared<ProcessNetwork>(std::move(mine), now);
          networks[network->process()] = network.get();
          Engine engine(config(), plan(), small_text(),
                        {.runtime = {.deadline = Seconds(kDeadline), .network = network}});
          CheckpointFolder folder(disk, "c");
          EXPECT_NO_THROW(save_checkpoint(engine, folder, 1))
              << "member " << network->process() << ", " << slow << " is slow";
          network->host().barrier(Seconds(kDeadline));  // the disk looks at both networks
        });
    EXPECT_EQ(Checkpoint(disk, find_checkpoint(disk, "c")).step(), 0);
  }
}

/// Two processes that restore from the checkpoints of these steps of two disks. Returns how many of
/// them refuse.
int refusals_of_two(SimulatedDisk& first, int64_t first_step, SimulatedDisk& second,
                    int64_t second_step) {
  std::atomic<int> refusals{0};
  testing_transport::on_processes(
      make_local_transports(2, 0, 1), [&](std::unique_ptr<Transport> mine) {
        const auto network = std::make_shared<ProcessNetwork>(std::move(mine));
        const bool is_first = network->process() == 0;
        Engine engine(config(), plan(), small_text(),
                      {.runtime = {.deadline = Seconds(600), .network = network}});
        SimulatedDisk& disk = is_first ? first : second;
        const CheckpointFolder folder(disk, "c");
        const Checkpoint checkpoint(disk, folder.path_of(is_first ? first_step : second_step));
        try {
          restore(engine, checkpoint);
          EXPECT_EQ(engine.step_count(), first_step);
        } catch (const UserError& error) {
          EXPECT_THAT(error.what(), HasSubstr("the processes opened different checkpoints"));
          EXPECT_EQ(error.exit_code(), ExitCode::kFailure);
          ++refusals;
        }
      });
  return refusals;
}

TEST(CheckpointingFaultsOfFiles, ProcessesThatFoundDifferentCheckpointsDoNotMixThem) {
  SimulatedDisk disk, of_another_seed;
  const auto store = [](SimulatedDisk& on, int64_t seed) {
    RunConfig settings = config();
    settings.train.seed = seed;
    Engine engine(settings, plan(), small_text());
    CheckpointFolder folder(on, "c");
    for (int step = 0; step < 2; ++step) {
      engine.step();
      save_checkpoint(engine, folder, 0);
    }
  };
  store(disk, config().train.seed);
  store(of_another_seed, config().train.seed + 1);
  EXPECT_EQ(refusals_of_two(disk, 1, disk, 2), 2);
  EXPECT_EQ(refusals_of_two(disk, 2, disk, 1), 2);
  EXPECT_EQ(refusals_of_two(disk, 2, of_another_seed, 2), 2);
  EXPECT_EQ(refusals_of_two(disk, 2, disk, 2), 0);
}

TEST(CheckpointingFaultsOfFiles, AFlippedBitIsNamedWithItsFileAndTheEarlierCheckpointThatIsGood) {
  Engine engine(config(), plan(), small_text());
  SimulatedDisk disk;
  CheckpointFolder folder(disk, "c");
  for (int64_t step = 0; step < 3; ++step) {
    save_checkpoint(engine, folder, 0);
    engine.step();
  }
  int flipped = 0;
  for (const std::string& name : disk.list("c/step-00000002")) {
    if (!name.ends_with(".safetensors")) continue;
    ++flipped;
    const std::string path = "c/step-00000002/" + name;
    disk.flip_bit(path, 8 * disk.open(path)->size() - 1);
    Engine resumed(config(), plan(), small_text(), {.runtime = {}, .initialize = false});
    try {
      restore(resumed, Checkpoint(disk, find_checkpoint(disk, "c")));
      ADD_FAILURE() << "the flipped bit of " << path << " was not found";
    } catch (const UserError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'" + path + "' is damaged: tensor '"),
                                      HasSubstr("fix: resume from step-00000001")));
    }
    disk.flip_bit(path, 8 * disk.open(path)->size() - 1);
  }
  EXPECT_GE(flipped, 1) << "the checkpoint has files of tensors";
}

}  // namespace
}  // namespace tessera
