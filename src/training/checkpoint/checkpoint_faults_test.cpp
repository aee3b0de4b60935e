// For a failure or a stop at any write: a complete checkpoint stays complete, and damage is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing/log_level.h"
#include "training/checkpoint/testing/simulated_disk.h"
#include "training/checkpoint/testing/stored_model.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const TensorType kTenBySeven{DType::kF32, {10, 7}};
const std::string kShard0 = "shard-00000-model-00001-of-00001.safetensors",
                  kShard1 = "shard-00001-model-00001-of-00001.safetensors";

/// Two ranks, with a tensor divided by rows and one divided by columns.
Owners two_ranks() {
  Owners owners = split_over_ranks("w", kTenBySeven, 0, 2);
  const Owners columns = split_over_ranks("m", kTenBySeven, 1, 2);
  for (size_t rank = 0; rank < 2; ++rank) owners[rank].push_back(columns[rank].front());
  return owners;
}

/// The step of the latest complete checkpoint, after all its bytes and values were checked; 0 if
/// there is none.
int64_t checked_latest(SimulatedDisk& disk) {
  const CheckpointFolder folder(disk, "c");
  const std::optional<int64_t> latest = folder.latest();
  if (!latest) return 0;
  const Checkpoint checkpoint(disk, folder.path_of(*latest));
  checkpoint.verify();
  const int64_t seed = checkpoint.state().find("step")->as_int();
  EXPECT_EQ(checkpoint.step(), *latest);
  EXPECT_EQ(seed, *latest);
  for (const char* name : {"w", "m"})
    EXPECT_EQ(load(checkpoint, name, whole_box(kTenBySeven.shape)),
              box_bytes(kTenBySeven, whole_box(kTenBySeven.shape), seed))
        << name;
  return *latest;
}

/// Checks that every checkpoint in place is whole, and that `latest`, if it exists, names one of
/// them.
void check_all_in_place(SimulatedDisk& disk) {
  const CheckpointFolder folder(disk, "c");
  for (int64_t step : folder.steps()) EXPECT_EQ(folder.damage(step, true), "");
  const std::vector<std::string> names = disk.list("c");
  if (std::find(names.begin(), names.end(), "latest") == names.end()) return;
  const std::optional<int64_t> named =
      step_of_name(read_whole(disk, "c/latest").substr(0, std::string("step-00000000").size()));
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(folder.damage(*named, true), "");
}

enum class Ending { kDone, kFailed, kStopped };

Ending try_save(SimulatedDisk& disk, int64_t step, int keep_last) try {
  save(disk, "c", step, two_ranks(), keep_last);
  return Ending::kDone;
} catch (const MachineStopped&) {
  return Ending::kStopped;
} catch (const UserError&) {
  return Ending::kFailed;
}

/// The checkpoints that exist before the failing save, the step of that save, and the number that
/// it keeps.
struct Situation {
  std::vector<int64_t> before;
  int64_t step;
  int keep_last;
};

const std::vector<Situation> kSituations = {
    {{}, 2, 1}, {{1}, 2, 1}, {{1}, 2, 0}, {{1, 2}, 3, 2}, {{1, 2}, 2, 1}};

std::unique_ptr<SimulatedDisk> disk_before(const Situation& situation) {
  auto disk = std::make_unique<SimulatedDisk>();
  for (int64_t step : situation.before) save(*disk, "c", step, two_ranks());
  return disk;
}

int64_t last_of(const std::vector<int64_t>& steps) {
  return steps.empty() ? 0 : steps.back();
}

class StopAtEveryWrite : public testing::TestWithParam<std::tuple<Fault::Kind, Crash>> {};

INSTANTIATE_TEST_SUITE_P(CheckpointFaults, StopAtEveryWrite,
                         testing::Combine(testing::Values(Fault::Kind::kStop, Fault::Kind::kTorn),
                                          testing::Values(Crash::kProcessKilled, Crash::kPowerLost,
                                                          Crash::kPowerLostNamesKept,
                                                          Crash::kPowerLostRemovalsKept)));

TEST_P(StopAtEveryWrite, LatestIsTheOldOrTheNewCheckpointAndTheNextSaveWorks) {
  const auto [kind, crash] = GetParam();
  for (const Situation& situation : kSituations) {
    const int64_t old = last_of(situation.before);
    int64_t writes = 0;
    for (Ending ending = Ending::kStopped; ending == Ending::kStopped; ++writes) {
      const auto disk = disk_before(situation);
      disk->arm({kind, writes});
      ending = try_save(*disk, situation.step, situation.keep_last);
      const auto restarted = disk->after(crash);
      const int64_t found = checked_latest(*restarted);
      check_all_in_place(*restarted);
      if (ending == Ending::kDone)
        EXPECT_EQ(found, situation.step);
      else
        EXPECT_TRUE(found == old || found == situation.step)
            << "write " << writes << ": found " << found;
      EXPECT_EQ(try_save(*restarted, 9, 1), Ending::kDone) << "write " << writes;
      EXPECT_EQ(checked_latest(*restarted), 9);
      EXPECT_THAT(restarted->list("c"),
                  testing::ElementsAre("latest", "latest_good",
                                       "step-00000009"));  // nothing is left behind
    }
    EXPECT_GT(
        writes,
        20);  // the enumeration did enumerate: a save of two ranks has more than twenty writes
  }
}

TEST(CheckpointFaults, AStopDuringTheRecoveryFromAStopLosesNothing) {
  const Situation situation{{1}, 2, 1};
  for (int64_t first = 0;; ++first) {
    const auto disk = disk_before(situation);
    disk->arm({Fault::Kind::kStop, first});
    if (try_save(*disk, 2, 1) == Ending::kDone) break;
    const int64_t found = checked_latest(*disk->after(Crash::kPowerLost));
    for (int64_t second = 0;; ++second) {
      const auto again = disk->after(Crash::kPowerLost);
      again->arm({Fault::Kind::kStop, second});
      const Ending ending = try_save(*again, 2, 1);  // the same step: the damaged one is replaced
      const int64_t found_again = checked_latest(*again->after(Crash::kPowerLost));
      EXPECT_TRUE(found_again == found || found_again == 2) << first << " " << second;
      if (ending == Ending::kDone) break;
    }
  }
}

class FailureAtEveryWrite : public testing::TestWithParam<Fault::Kind> {};
INSTANTIATE_TEST_SUITE_P(CheckpointFaults, FailureAtEveryWrite,
                         testing::Values(Fault::Kind::kFail, Fault::Kind::kFull));

TEST_P(FailureAtEveryWrite, IsAnErrorThatLosesNothing) {
  const LogLevelScope errors(LogLevel::kError);  // a leftover file is a warning
  for (const Situation& situation : kSituations) {
    int failures = 0;
    bool reached_the_end = false;
    for (int64_t write = 0; !reached_the_end; ++write) {
      const auto disk = disk_before(situation);
      disk->arm({GetParam(), write});
      const Ending ending = try_save(*disk, situation.step, situation.keep_last);
      reached_the_end = disk->writes() <= write;
      failures += ending == Ending::kFailed;
      const int64_t found = checked_latest(*disk);
      if (ending == Ending::kDone)  // also when only the removal of an old one failed
        EXPECT_EQ(found, situation.step);
      else
        EXPECT_TRUE(found == last_of(situation.before) || found == situation.step)
            << "write " << write << ": found " << found;
      disk->arm({});
      EXPECT_EQ(try_save(*disk, 9, 1), Ending::kDone) << "write " << write;
      EXPECT_EQ(checked_latest(*disk), 9);
    }
    EXPECT_GT(failures, 20);
  }
}

TEST(CheckpointFaults, ShortWritesAndReadsChangeNothing) {
  SimulatedDisk disk;
  disk.limit_transfers(13);
  save(disk, "c", 1, two_ranks());
  EXPECT_EQ(checked_latest(disk), 1);
}

TEST(CheckpointFaults, EveryFlippedBitOfEveryFileIsFound) {
  SimulatedDisk disk;
  save(disk, "c", 1, two_ranks());
  const CheckpointFolder folder(disk, "c");
  ASSERT_EQ(folder.damage(1, true), "");
  for (const std::string& name : disk.list("c/step-00000001")) {
    const std::string path = "c/step-00000001/" + name;
    const auto bytes = static_cast<int64_t>(read_whole(disk, path).size());
    for (int64_t byte = 0; byte < bytes; ++byte) {
      const int64_t bit = 8 * byte + byte % 8;
      disk.flip_bit(path, bit);
      EXPECT_THAT(folder.damage(1, true),
                  HasSubstr(name == "checksums.txt" ? "c/step-00000001/" : path))
          << "bit " << bit;
      disk.flip_bit(path, bit);
    }
  }
  EXPECT_EQ(folder.damage(1, true), "");
}

TEST(CheckpointFaults, AFlippedBitIsFoundByWhoLoadsTheTensorAndByNobodyElse) {
  SimulatedDisk disk;
  save(disk, "c", 1, two_ranks());
  const int64_t bytes = disk.open("c/step-00000001/" + kShard1)->size();
  disk.flip_bit("c/step-00000001/" + kShard1,
                8 * bytes - 1);  // the last byte: rows 5 to 10 of w, since m comes before w
  const Checkpoint checkpoint(disk, "c/step-00000001");
  EXPECT_EQ(load(checkpoint, "m", whole_box(kTenBySeven.shape)),
            box_bytes(kTenBySeven, whole_box(kTenBySeven.shape), 1));
  load(checkpoint, "w", Box{{{0, 5}, {0, 7}}});
  EXPECT_THAT(message_of([&] { load(checkpoint, "w", Box{{{4, 6}, {0, 7}}}); }),
              StartsWith("65 'c/step-00000001/" + kShard1 +
                         "' is damaged: tensor 'w' [5:10, 0:7]\n  why: bytes "));
}

TEST(CheckpointFaults, AnErrorNamesTheNewestEarlierCheckpointThatIsGood) {
  SimulatedDisk disk;
  for (int64_t step : {100, 200, 300}) save(disk, "c", step, two_ranks());
  const auto flip_last_bit = [&](const std::string& path) {
    disk.flip_bit(path, 8 * disk.open(path)->size() - 1);
  };
  const auto load_latest = [&] {
    return message_of(
        [&] { load(Checkpoint(disk, "c/step-00000300"), "w", whole_box(kTenBySeven.shape)); });
  };
  flip_last_bit("c/step-00000300/" + kShard1);
  EXPECT_THAT(load_latest(), HasSubstr("\n  fix: resume from step-00000200, the newest earlier "
                                       "checkpoint whose every byte is good"));
  flip_last_bit("c/step-00000200/" + kShard0);  // found only by reading all of it
  EXPECT_THAT(load_latest(), HasSubstr("\n  fix: resume from step-00000100, the newest earlier "
                                       "checkpoint whose every byte is good"));
  disk.remove("c/step-00000100/state.json");
  EXPECT_THAT(load_latest(), HasSubstr("\n  fix: no earlier checkpoint is good: restore the file "
                                       "from a copy, or start the run anew"));
}

TEST(CheckpointFaults, DamageIsNamedWithTheFileWhenTheCheckpointOpens) {
  const auto damaged_by = [](auto damage) {
    SimulatedDisk disk;
    save(disk, "c", 1, two_ranks());
    damage(disk);
    return message_of([&] { Checkpoint(disk, "c/step-00000001"); });
  };
  const std::string fix =
      "\n  fix: no earlier checkpoint is good: restore the file from a copy, or start the run anew";
  const std::string folder = "c/step-00000001/";
  EXPECT_EQ(damaged_by([&](SimulatedDisk& disk) { disk.remove(folder + kShard0); }),
            "65 cannot read '" + folder + kShard0 + "'\n  why: No such file or directory" + fix);
  const std::string cut =
      damaged_by([&](SimulatedDisk& disk) { disk.truncate(folder + kShard0, 100); });
  EXPECT_THAT(cut, StartsWith("65 '" + folder + kShard0 +
                              "' is damaged\n  why: it has 100 bytes, and was written with "));
  EXPECT_THAT(damaged_by([&](SimulatedDisk& disk) { disk.truncate(folder + "state.json", 0); }),
              StartsWith("65 '" + folder +
                         "state.json' is damaged\n  why: checksums.txt has no line '00000000 0 "
                         "state.json', which is what the "
                         "file has now"));
  EXPECT_EQ(damaged_by([&](SimulatedDisk& disk) { disk.truncate(folder + "checksums.txt", 10); }),
            "65 '" + folder +
                "checksums.txt' is damaged\n  why: it is not the text that was written" + fix);
  EXPECT_EQ(damaged_by([&](SimulatedDisk& disk) {
              write_synced(disk, folder + "checksums.txt", "tessera.checkpoint 2\n");
            }),
            "65 '" + folder +
                "checksums.txt' is of format version 2\n  why: this program reads version 1" + fix);
}

TEST(CheckpointFaults, LatestFallsBackFromWhatIsDamaged) {
  SimulatedDisk disk;
  for (int64_t step : {1, 2, 3}) save(disk, "c", step, two_ranks());
  const CheckpointFolder folder(disk, "c");
  EXPECT_EQ(folder.latest(), 3);
  write_synced(disk, "c/latest", "step-00000002\n");  // a run that was taken back to step 2
  EXPECT_EQ(folder.latest(), 2);
  disk.remove("c/step-00000002/index.json");
  EXPECT_EQ(folder.latest(), 1);
  disk.remove("c/step-00000001/index.json");
  EXPECT_EQ(folder.latest(), 3);
  write_synced(disk, "c/latest", "nonsense");
  EXPECT_EQ(folder.latest(), 3);
  disk.remove("c/latest");
  EXPECT_EQ(folder.latest(), 3);
  disk.remove("c/step-00000003/index.json");
  EXPECT_EQ(folder.latest(), std::nullopt);
}

TEST(CheckpointFaults, KeepingTheLastCountsOnlyCompleteCheckpoints) {
  SimulatedDisk disk;
  for (int64_t step : {1, 2, 3}) save(disk, "c", step, two_ranks());
  disk.truncate("c/step-00000003/" + kShard0, 9);
  save(disk, "c", 4, two_ranks(), 2);
  EXPECT_EQ(CheckpointFolder(disk, "c").steps(),
            (std::vector<int64_t>{2, 3, 4}));  // 2 and 4 are the last two that are complete
  save(disk, "c", 5, two_ranks(), 2);
  EXPECT_EQ(CheckpointFolder(disk, "c").steps(), (std::vector<int64_t>{4, 5}));
  save(disk, "c", 6, two_ranks(), 0);
  EXPECT_EQ(CheckpointFolder(disk, "c").steps(), (std::vector<int64_t>{4, 5, 6}));
}

TEST(CheckpointFaults, ABitThatIsStoredWronglyNeverCostsTheOnlyGoodCheckpoint) {
  for (const Situation& situation : kSituations) {
    int found_at_once = 0;
    bool reached_the_end = false;
    for (int64_t write = 0; !reached_the_end; ++write) {
      const auto disk = disk_before(situation);
      disk->arm({Fault::Kind::kFlip, write});
      found_at_once += try_save(*disk, situation.step, 1) == Ending::kFailed;
      reached_the_end = disk->writes() <= write;
      const int64_t found = checked_latest(*disk);
      EXPECT_TRUE(found == situation.step || found == last_of(situation.before))
          << "write " << write << ": found " << found;
    }
    EXPECT_GE(found_at_once,
              6);  // two ranks with a header and two tensors each: their files are read back
  }
}

TEST(CheckpointFaults, ARanksFileThatDoesNotComeBackStopsTheSave) {
  SimulatedDisk disk;
  CheckpointFolder folder(disk, "c");
  folder.begin(2);
  disk.arm({Fault::Kind::kFlip, 2});  // 0 creates the file, 1 writes its header, 2 its first tensor
  EXPECT_EQ(message_of([&] { store_owned(folder, 2, 0, two_ranks()); }),
            "1 'c/step-00000002.tmp/" + kShard0 +
                "' did not come back as it was written\n  why: tensor 'm' has another checksum\n  "
                "fix: check the disk, or store on another one");
}

TEST(CheckpointFaults, GoingBackAndOnKeepsTheNewRunAndLeavesTheOldOneAlone) {
  SimulatedDisk disk;
  for (int64_t step : {1, 2, 3}) save(disk, "c", step, two_ranks());
  save(disk, "c", 2, two_ranks(), 1);  // from step 1 on again
  const CheckpointFolder folder(disk, "c");
  EXPECT_EQ(folder.latest(), 2);
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{2, 3}));
}

}  // namespace
}  // namespace tessera
