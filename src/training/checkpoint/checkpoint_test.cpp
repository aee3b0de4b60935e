#include "training/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "base/random.h"
#include "training/checkpoint/testing/simulated_disk.h"
#include "training/checkpoint/testing/stored_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const TensorType kMatrix{DType::kF32, {10, 7}};

TEST(Checkpoint, NamesSayTheStepAndTheRank) {
  EXPECT_EQ(checkpoint_name(1000), "step-00001000");
  EXPECT_EQ(checkpoint_name(1234567890), "step-1234567890");
  EXPECT_EQ(step_of_name("step-00001000"), 1000);
  EXPECT_EQ(step_of_name("step-1234567890.tmp"), 1234567890);
  for (const char* other : {"step-1", "step-00001000.old", "step-", "latest", "step-00001000x",
                            "step-99999999999999999999"})
    EXPECT_EQ(step_of_name(other), std::nullopt) << other;
  EXPECT_EQ(rank_file_name(3), "shard-00003-model-00001-of-00001.safetensors");
}

TEST(Checkpoint, IsAFolderWithAFileARank) {
  SimulatedDisk disk;
  save(disk, "run/checkpoints/", 7, split_over_ranks("w", kMatrix, 0, 2));
  EXPECT_THAT(disk.list("run/checkpoints"), ElementsAre("latest", "latest_good", "step-00000007"));
  EXPECT_EQ(read_whole(disk, "run/checkpoints/latest"), "step-00000007\n");
  EXPECT_THAT(disk.list("run/checkpoints/step-00000007"),
              ElementsAre("checksums.txt", "index.json", "plan.json",
                          "shard-00000-model-00001-of-00001.safetensors",
                          "shard-00001-model-00001-of-00001.safetensors", "state.json"));
}

TEST(Checkpoint, ARanksFileIsWhatPyTorchCallsShardedSafetensors) {
  SimulatedDisk disk;
  save(disk, "c", 7, split_over_ranks("w", kMatrix, 0, 2));
  const SafetensorsFile file(disk, "c/step-00000007/shard-00001-model-00001-of-00001.safetensors");
  const FileMetadata& metadata = file.header().metadata;
  EXPECT_EQ(metadata.at("DCP_SHARDING_INFO"),
            R"({"w":{"saved_offsets":[5,0]}})");  // 10 rows in two parts: the second begins at 5
  EXPECT_EQ(metadata.at("DCP_VERSION"), "1.0");
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(metadata.at("tessera.global_shapes"), R"({"w":[10,7]})");
  EXPECT_EQ(file.read("w").values<float>().front(), 7.0F + 35.0F);  // seed 7, element 5 * 7
}

TEST(Checkpoint, GivesBackStateAndPlan) {
  SimulatedDisk disk;
  CheckpointFolder folder(disk, "c");
  const Document state = Document::Table{
      {"tokens", int64_t{1} << 60}, {"loss", 0.1}, {"seeds", Document::List{1, -2}}};
  folder.begin(3);
  folder.store(3, 0, 1, {});
  folder.commit(3, 1, state, Document::Table{}, 0);
  const Checkpoint checkpoint(disk, "c/step-00000003/");
  EXPECT_EQ(checkpoint.step(), 3);
  EXPECT_EQ(checkpoint.state(), state);
  EXPECT_EQ(checkpoint.plan(), Document(Document::Table{}));
}

TEST(Checkpoint, SavedByRowsInThreePartsLoadsByColumnsInFour) {
  SimulatedDisk disk;
  save(disk, "c", 1, split_over_ranks("w", kMatrix, 0, 3));  // rows 4, 3, 3
  const Checkpoint checkpoint(disk, "c/step-00000001");
  for (int64_t part = 0; part < 4; ++part) {  // columns 2, 2, 2, 1
    const Box box = part_of(kMatrix.shape, 1, 4, part);
    EXPECT_EQ(load(checkpoint, "w", box), box_bytes(kMatrix, box, 1)) << to_text(box);
  }
}

TEST(Checkpoint, MorePartsThanRowsLeaveEmptyParts) {
  const TensorType whole{DType::kI32, {3, 5}};
  SimulatedDisk disk;
  save(disk, "c", 1, split_over_ranks("w", whole, 0, 5));  // two ranks have nothing
  const Checkpoint checkpoint(disk, "c/step-00000001");
  EXPECT_EQ(checkpoint.index().tensors.at("w").parts.size(), 3u);
  EXPECT_EQ(load(checkpoint, "w", whole_box(whole.shape)),
            box_bytes(whole, whole_box(whole.shape), 1));
  EXPECT_TRUE(load(checkpoint, "w", Box{{{1, 1}, {0, 5}}}).empty());
}

TEST(Checkpoint, HoldsScalarsEmptyTensorsAndAllElementTypes) {
  const TensorType scalar{DType::kF32, {}}, none{DType::kF32, {0, 4}}, flags{DType::kBool, {9}},
      counts{DType::kI32, {2, 2}};
  SimulatedDisk disk;
  save(disk, "c", 5,
       {{{"scalar", scalar, Box{}}, {"none", none, whole_box(none.shape)}},
        {{"flags", flags, whole_box(flags.shape)}, {"counts", counts, whole_box(counts.shape)}}});
  const Checkpoint checkpoint(disk, "c/step-00000005");
  EXPECT_EQ(checkpoint.index().tensors.size(), 4u);
  for (const auto& [name, whole] : std::map<std::string, TensorType>{
           {"scalar", scalar}, {"none", none}, {"flags", flags}, {"counts", counts}})
    EXPECT_EQ(load(checkpoint, name, whole_box(whole.shape)),
              box_bytes(whole, whole_box(whole.shape), 5))
        << name;
}

TEST(Checkpoint, ARankMayStoreSeveralBoxesOfATensor) {
  // These are a fused q, k, v with separate parts, and a tensor that has the name of a second box.
  SimulatedDisk disk;
  const TensorType flat{DType::kF32, {6}};
  save(disk, "c", 1,
       {{{"w", flat, Box{{{0, 1}}}},
         {"w", flat, Box{{{2, 3}}}},
         {"w", flat, Box{{{4, 5}}}},
         {"w#1", flat, Box{{{0, 6}}}}},
        {{"w", flat, Box{{{1, 2}}}}, {"w", flat, Box{{{3, 4}}}}, {"w", flat, Box{{{5, 6}}}}}});
  const Checkpoint checkpoint(disk, "c/step-00000001");
  for (const char* name : {"w", "w#1"})
    EXPECT_EQ(load(checkpoint, name, whole_box({6})), box_bytes(flat, whole_box({6}), 1)) << name;
}

/// Cuts `box` into pieces at random positions, some of them empty, and gives each to a random rank.
class RandomOwners {
 public:
  explicit RandomOwners(uint64_t seed) : random_(random_key(seed, "owners"), 0) {}
  int64_t number(int64_t below) {
    return static_cast<int64_t>(random_.uniform(draw_++) * static_cast<float>(below));
  }

  void cut(const std::string& tensor, const TensorType& whole, Box box, int cuts, Owners& owners) {
    const int64_t dim = number(whole.shape.size());
    Range& range = box.ranges[dim];
    const int64_t place = range.begin + number(range.size() + 1);
    if (cuts == 0) {
      owners[number(static_cast<int64_t>(owners.size()))].push_back({tensor, whole, box});
      return;
    }
    Box rest = box;
    range.end = rest.ranges[dim].begin = place;
    cut(tensor, whole, box, cuts - 1, owners);
    cut(tensor, whole, rest, cuts - 1, owners);
  }
  Box box_in(const Shape& shape) {
    Box box;
    for (int64_t extent : shape) {
      const int64_t a = number(extent + 1), b = number(extent + 1);
      box.ranges.push_back({std::min(a, b), std::max(a, b)});
    }
    return box;
  }

 private:
  RandomStream random_;
  uint64_t draw_ = 0;
};

TEST(Checkpoint, RandomBoxesComeBackInOtherRandomBoxes) {
  // 30 * 50 * 7 * 4 bytes = 42 kB, so parts have several blocks.
  const TensorType whole{DType::kF32, {30, 50, 7}};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomOwners random(seed);
    Owners owners(3);
    random.cut("w", whole, whole_box(whole.shape), 3, owners);
    SimulatedDisk disk;
    save(disk, "c", 1, owners);
    const Checkpoint checkpoint(disk, "c/step-00000001");
    for (int trial = 0; trial < 20; ++trial) {
      const Box box = random.box_in(whole.shape);
      EXPECT_EQ(load(checkpoint, "w", box), box_bytes(whole, box, 1))
          << "seed " << seed << " " << to_text(box);
    }
  }
}

TEST(Checkpoint, RowsCostAtMostATwentiethMoreThanTheirBytes) {
  const TensorType whole{DType::kF32, {3000, 100}};
  SimulatedDisk disk;
  save(disk, "c", 1, split_over_ranks("w", whole, 0, 3));
  for (int64_t parts : {1, 3, 5}) {
    for (int64_t part = 0; part < parts; ++part) {
      const Checkpoint checkpoint(disk, "c/step-00000001");
      const Box box = part_of(whole.shape, 0, parts, part);
      const int64_t before = disk.reads();
      const std::vector<std::byte> bytes = load(checkpoint, "w", box);
      EXPECT_EQ(bytes, box_bytes(whole, box, 1));
      // Blocks have 4096 bytes, and each end inside of a stored part adds less than one block: at
      // most 8 kB more than 240 kB.
      EXPECT_GE(checkpoint.bytes_read().value(), static_cast<int64_t>(bytes.size()));
      EXPECT_LE(static_cast<double>(checkpoint.bytes_read().value()),
                1.05 * static_cast<double>(bytes.size()));
      if (parts <= 3) {
        EXPECT_EQ(checkpoint.bytes_read().value(), static_cast<int64_t>(bytes.size()));
      }
      EXPECT_LE(disk.reads() - before,
                parts == 1 ? 3 : 2);  // one read of each stored part that it shares rows with
    }
  }
}

TEST(Checkpoint, ColumnsOfLongRowsReadOnlyTheirBlocks) {
  const TensorType whole{DType::kF32, {8, 16384}};  // rows of 64 KiB, blocks of 4 KiB
  SimulatedDisk disk;
  save(disk, "c", 1, split_over_ranks("w", whole, 0, 1));
  const Checkpoint checkpoint(disk, "c/step-00000001");
  const int64_t before = disk.reads();
  const Box box{{{0, 8}, {1024, 2048}}};  // in each row, bytes 4096 to 8192
  EXPECT_EQ(load(checkpoint, "w", box), box_bytes(whole, box, 1));
  EXPECT_EQ(checkpoint.bytes_read(), Bytes(8 * 4096));
  EXPECT_EQ(disk.reads() - before, 8);
}

TEST(Checkpoint, ColumnsOfShortRowsAreOneRead) {
  SimulatedDisk disk;
  save(disk, "c", 1, split_over_ranks("w", kMatrix, 0, 1));
  const Checkpoint checkpoint(disk, "c/step-00000001");
  const int64_t before = disk.reads();
  load(checkpoint, "w", part_of(kMatrix.shape, 1, 4, 2));
  EXPECT_EQ(disk.reads() - before, 1);
  EXPECT_EQ(checkpoint.bytes_read(), Bytes(280));  // 10 * 7 * 4, in one block
}

TEST(Checkpoint, PartsLongerThanOneReadComeBack) {
  const TensorType whole{
      DType::kF32,
      {3, 1000003}};  // 12 MB: two reads of up to 8 MiB, whose border is inside of a row
  SimulatedDisk disk;
  save(disk, "c", 1, split_over_ranks("w", whole, 0, 1));
  const Checkpoint checkpoint(disk, "c/step-00000001");
  const Box box{{{0, 3}, {1, 1000003}}};
  EXPECT_EQ(load(checkpoint, "w", box), box_bytes(whole, box, 1));
}

/// Ranks as threads, on the disk of the machine.
class CheckpointOnDisk : public testing::Test {
 protected:
  CheckpointOnDisk()
      : root_(fs::path(testing::TempDir()) / ("tessera_checkpoint_" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
  }
  ~CheckpointOnDisk() override { fs::remove_all(root_); }

  RealFileSystem files_;
  fs::path root_;
};

TEST_F(CheckpointOnDisk, RanksStoreAndLoadAtTheSameTime) {
  const TensorType whole{DType::kF32, {257, 33}};
  const Owners owners = split_over_ranks("w", whole, 0, 8);
  CheckpointFolder folder(files_, root_ / "in" / "checkpoints");
  for (int64_t step : {1, 2, 3}) {
    folder.begin(step);
    {
      std::vector<std::jthread> ranks;
      for (Rank rank = 0; rank < 8; ++rank)
        ranks.emplace_back([&, rank] { store_owned(folder, step, rank, owners); });
    }
    folder.commit(step, 8, state_of(step), Document::Table{}, 2);
  }
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(folder.latest(), 3);
  const Checkpoint checkpoint(files_, folder.path_of(3));
  std::vector<std::vector<std::byte>> loaded(5);
  {
    std::vector<std::jthread> ranks;
    for (int64_t part = 0; part < 5; ++part)
      ranks.emplace_back(
          [&, part] { loaded[part] = load(checkpoint, "w", part_of(whole.shape, 1, 5, part)); });
  }
  for (int64_t part = 0; part < 5; ++part)
    EXPECT_EQ(loaded[part], box_bytes(whole, part_of(whole.shape, 1, 5, part), 3)) << part;
  checkpoint.verify();
}

TEST(CheckpointFolder, KeepsTheLastGoodCheckpointUntilThereIsALaterGoodOne) {
  SimulatedDisk disk;
  const auto steps_after = [&](int64_t step, bool is_good) {
    save(disk, "c", step, {{{"w", kMatrix, whole_box(kMatrix.shape)}}}, Retention(1, is_good));
    return CheckpointFolder(disk, "c").steps();
  };
  const auto good = [&] { return CheckpointFolder(disk, "c").latest_good(); };
  EXPECT_THAT(steps_after(1, true), ElementsAre(1));
  EXPECT_THAT(steps_after(2, false), ElementsAre(1, 2));
  EXPECT_THAT(steps_after(3, false), ElementsAre(1, 3)) << "the first one is still the last good";
  EXPECT_EQ(good(), 1);
  EXPECT_EQ(CheckpointFolder(disk, "c").latest(), 3);
  EXPECT_THAT(steps_after(4, true), ElementsAre(4)) << "the run has recovered";
  EXPECT_EQ(good(), 4);
}

TEST(CheckpointFolder, AStepThatSpoiledItsCheckpointLeavesTheProvenOne) {
  SimulatedDisk disk;
  const auto save_step = [&](int64_t step, const Retention& retention) {
    save(disk, "c", step, {{{"w", kMatrix, whole_box(kMatrix.shape)}}}, retention);
    return CheckpointFolder(disk, "c").steps();
  };
  EXPECT_THAT(save_step(1, 1), ElementsAre(1));
  // The loss of step 2 was that of the state of step 1. What step 2 did is known after step 3.
  EXPECT_THAT(save_step(2, Retention(1, true, 1)), ElementsAre(1, 2));
  EXPECT_EQ(CheckpointFolder(disk, "c").latest_good(), 2);
  EXPECT_THAT(save_step(3, Retention(1, false, 1)), ElementsAre(1, 3));
  EXPECT_EQ(CheckpointFolder(disk, "c").latest_good(), 1);
}

TEST(CheckpointFolder, OneThatIsDamagedIsNotTheLatestGood) {
  SimulatedDisk disk;
  save(disk, "c", 1, {{{"w", kMatrix, whole_box(kMatrix.shape)}}}, 0);
  save(disk, "c", 2, {{{"w", kMatrix, whole_box(kMatrix.shape)}}}, Retention(0, false));
  write_synced(disk, "c/step-00000001/index.json", "x");
  EXPECT_EQ(CheckpointFolder(disk, "c").latest_good(), 2);
}

TEST(Checkpoint, EveryFlippedByteOfAHeaderIsFoundWhenItIsOpened) {
  const Owners owners = {{{"w", kMatrix, whole_box(kMatrix.shape)}},
                         {}};  // the second has a header only
  SimulatedDisk disk;
  save(disk, "c", 1, owners);
  const CheckpointFolder folder(disk, "c");
  for (const Rank rank : {0, 1}) {
    const std::filesystem::path shard = folder.path_of(1) / rank_file_name(rank);
    const std::string whole = read_whole(disk, shard);
    const int64_t header = read_safetensors_header(*disk.open(shard)).data_begin;
    for (int64_t at = 0; at < header; at += 7) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 1);
      write_synced(disk, shard, flipped);
      EXPECT_THAT(folder.damage(1, false), HasSubstr("is damaged: its header has the checksum"))
          << rank << " " << at;
    }
    write_synced(disk, shard, whole);
  }
  EXPECT_EQ(folder.damage(1, true), "");
}

TEST(CheckpointFolder, LeavesFoldersOfOthers) {
  SimulatedDisk disk;
  disk.make_folder("c/step-00000001");
  disk.make_folder("c/step-00000002");
  write_synced(disk, "c/step-00000002/notes.txt", "of someone else");
  for (const int64_t step : {3, 4})
    save(disk, "c", step, {{{"w", kMatrix, whole_box(kMatrix.shape)}}}, 1);
  EXPECT_THAT(disk.list("c"), ElementsAre("latest", "latest_good", "step-00000001", "step-00000002",
                                          "step-00000004"));
  EXPECT_EQ(CheckpointFolder(disk, "c").latest(), 4);
}

TEST(Checkpoint, RefusesToCommitWhatTheRanksDidNotStore) {
  const auto commit_of = [](const Owners& owners, int ranks) {
    return message_of([&] {
      SimulatedDisk disk;
      CheckpointFolder folder(disk, "c");
      folder.begin(4);
      for (size_t rank = 0; rank < owners.size(); ++rank)
        store_owned(folder, 4, static_cast<Rank>(rank), owners);
      folder.commit(4, ranks, {}, {}, 0);
    });
  };
  const std::string shard0 = "shard-00000-model-00001-of-00001.safetensors",
                    shard1 = "shard-00001-model-00001-of-00001.safetensors";
  EXPECT_EQ(
      message_of([&] {
        SimulatedDisk disk;
        CheckpointFolder folder(disk, "c");
        folder.begin(4);
        folder.store(4, 0, 2, {});
        folder.commit(4, 2, {}, {}, 0);
      }),
      "65 rank 1 of 2 stored nothing for step-00000004\n  why: there is no 'c/step-00000004.tmp/" +
          shard1 + "'\n  fix: let the folder lie on a file system that all ranks share");
  EXPECT_EQ(commit_of({{}, {}}, 1),
            "65 'c/step-00000004.tmp/" + shard0 +
                "' was stored by rank 0 of 2 at step 4\n  why: rank 0 of 1 at step 4 was expected\n"
                "  fix: let one run at a time write into the folder");
  EXPECT_EQ(
      commit_of({{{"w", kMatrix, Box{{{0, 6}, {0, 7}}}}}, {{"w", kMatrix, Box{{{5, 10}, {0, 7}}}}}},
                2),
      "65 'c/step-00000004.tmp': tensor 'w' is stored twice in part\n  why: [0:6, 0:7] of '" +
          shard0 + "' and [5:10, 0:7] of '" + shard1 +
          "' overlap\n  fix: let one rank alone store each element");
  EXPECT_EQ(
      commit_of({{{"w", kMatrix, Box{{{0, 6}, {0, 7}}}}}, {{"w", kMatrix, Box{{{7, 10}, {0, 7}}}}}},
                2),
      "65 'c/step-00000004.tmp': tensor 'w' is incomplete\n  why: its parts hold 63 of the 70 "
      "elements of f32[10,7]\n"  // a row is missing
      "  fix: let every element be stored by one rank");
  EXPECT_EQ(
      commit_of({{{"w", kMatrix, Box{{{0, 6}, {0, 7}}}}},
                 {{"w", {DType::kF32, {9, 7}}, Box{{{6, 9}, {0, 7}}}}}},
                2),
      "65 'c/step-00000004.tmp/" + shard1 +
          "': tensor 'w' is a part of f32[9,7]\n  why: other ranks stored parts of f32[10,7]\n"
          "  fix: let all ranks run the same program");
}

TEST(Checkpoint, SaysHowItDiffersFromTheModel) {
  SimulatedDisk disk;
  save(disk, "c", 1,
       {{{"w", kMatrix, whole_box(kMatrix.shape)},
         {"old.bias", {DType::kF32, {7}}, whole_box({7})}}});
  const Checkpoint checkpoint(disk, "c/step-00000001");
  checkpoint.require({{"w", kMatrix}, {"old.bias", {DType::kF32, {7}}}});
  EXPECT_EQ(message_of([&] {
              checkpoint.require({{"w", {DType::kF32, {7, 10}}}, {"new.bias", {DType::kF32, {7}}}});
            }),
            "65 the checkpoint 'c/step-00000001' does not fit the model\n"
            "  why: missing 'new.bias' f32[7]; 'w' is f32[10,7], wanted f32[7,10]; unexpected "
            "'old.bias' f32[7]\n"
            "  fix: load it with the model and the optimizer that it was stored with");
  EXPECT_EQ(message_of([&] { checkpoint.load_box("odd.bias", whole_box({7}), nullptr); }),
            "65 the checkpoint 'c/step-00000001' has no tensor 'odd.bias'\n  why: the nearest is "
            "'old.bias'\n"
            "  fix: load it with the model and the optimizer that it was stored with");
  EXPECT_EQ(message_of([&] { Checkpoint(disk, "c/step-00000002"); }),
            "66 cannot read 'c/step-00000002'\n  why: there is no such folder\n  fix: check the "
            "path and that the file may be read");
}

TEST(Checkpoint, IsSummarisedFromAFileAFolderOrARun) {
  SimulatedDisk disk;
  for (int64_t step : {1, 2}) save(disk, "c", step, split_over_ranks("w", kMatrix, 0, 2));
  disk.remove("c/step-00000001/plan.json");
  const Document file =
      inspect_stored(disk, "c/step-00000002/shard-00001-model-00001-of-00001.safetensors");
  EXPECT_EQ(to_json(*file.find("tensors")),
            R"([{"name":"w","dtype":"F32","shape":[5,7],"bytes":140}])");
  Document checkpoint = inspect_stored(disk, "c/step-00000002/");
  EXPECT_EQ(
      to_json(checkpoint),
      R"({"kind":"checkpoint","version":1,"step":2,"ranks":2,"bytes":280,)"
      R"("files":["shard-00000-model-00001-of-00001.safetensors",)"
      R"("shard-00001-model-00001-of-00001.safetensors"],"tensor_count":1,"tensors":[{"name":"w",)"
      R"("dtype":"F32","shape":[10,7],)"
      R"("bytes":280,"parts":2}],"state":{"step":2,"data_position":16}})");
  EXPECT_EQ(to_json(inspect_stored(disk, "c")),
            R"({"kind":"checkpoints","latest":"step-00000002","latest_good":"step-00000002",)"
            R"("checkpoints":[{"name":"step-00000001",)"
            R"("step":1,"complete":false,)"
            R"("damage":"cannot read 'c/step-00000001/plan.json': No such file or directory"},)"
            R"({"name":"step-00000002","step":2,"complete":true,"damage":""}]})");
  EXPECT_THAT(message_of([&] { inspect_stored(disk, "none"); }),
              HasSubstr("66 cannot read 'none'"));
  disk.make_folder("empty");
  EXPECT_THAT(message_of([&] { inspect_stored(disk, "empty"); }),
              HasSubstr("65 'empty' holds no checkpoint"));
}

}  // namespace
}  // namespace tessera
