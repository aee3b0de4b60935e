#include "training/checkpoint/joint_load.h"

#include <gtest/gtest.h>

#include "training/checkpoint/crc32c.h"
#include "training/checkpoint/testing/simulated_disk.h"
#include "training/checkpoint/testing/stored_model.h"

namespace tessera {
namespace {

std::vector<std::byte> joint_load_some_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 131 + 7) % 251);
  return bytes;
}

TEST(Crc32cShares, OfPiecesThatTileATextGiveItsChecksum) {
  const std::vector<std::byte> bytes = joint_load_some_bytes(100000);
  const std::span<const std::byte> all(bytes);
  for (const size_t piece : {1U, 7U, 64U, 4099U, 99999U, 100000U}) {
    uint32_t shares = 0;
    for (size_t begin = 0; begin < bytes.size(); begin += piece) {
      const size_t size = std::min(piece, bytes.size() - begin);
      shares ^=
          crc32c_share(all.subspan(begin, size), static_cast<int64_t>(bytes.size() - begin - size));
    }
    EXPECT_EQ(crc32c_of_shares(shares, static_cast<int64_t>(bytes.size())), crc32c(all))
        << "pieces of " << piece;
  }
  EXPECT_EQ(crc32c_of_shares(0, 0), crc32c(std::string_view("")));
}

/// 300 rows of 500 bytes, stored by two ranks: a block of 4096 bytes has 8 rows and a fraction.
const TensorType kRows{DType::kF32, {300, 125}};

Box columns(int64_t parts, int64_t part) {
  return {{{0, 300}, balanced_part(125, parts, part)}};
}

class JointLoads : public testing::Test {
 protected:
  JointLoads() {
    Owners owners(2);
    for (int64_t rank = 0; rank < 2; ++rank)
      owners[rank].push_back({"w", kRows, {{balanced_part(300, 2, rank), {0, 125}}}});
    CheckpointFolder folder(disk_, "c");
    folder.begin(1);
    for (Rank rank = 0; rank < 2; ++rank) store_owned(folder, 1, rank, owners);
    folder.commit(1, 2, state_of(1), {}, 0);
  }

  /// Loads the columns of `parts` ranks, each box `copies` times, of which one counts. The columns
  /// of rank `left_out` are not loaded.
  void load(JointLoad& joint, int64_t parts, int64_t left_out = -1, int copies = 1) {
    for (int64_t part = 0; part < parts; ++part)
      for (int copy = 0; copy < copies && part != left_out; ++copy) {
        std::vector<std::byte> out(
            static_cast<size_t>(element_count(columns(parts, part).shape()) * 4));
        joint.load_box("w", columns(parts, part), out.data(), copy == 0);
        EXPECT_EQ(out, box_bytes(kRows, columns(parts, part), 1));
      }
  }

  SimulatedDisk disk_;
};

TEST_F(JointLoads, ReadEachByteThatIsNeededAndNoOther) {
  for (int64_t parts : {1, 2, 3, 5}) {
    const Checkpoint checkpoint(disk_, "c/step-00000001");
    JointLoad joint(checkpoint);
    load(joint, parts);
    joint.finish();
    EXPECT_EQ(checkpoint.bytes_read(), Bytes(300 * 125 * 4)) << parts;
  }
}

TEST_F(JointLoads, CopiesAreReadAndCountOnce) {
  const Checkpoint checkpoint(disk_, "c/step-00000001");
  JointLoad joint(checkpoint);
  load(joint, 3, -1, 2);
  joint.finish();
  EXPECT_EQ(checkpoint.bytes_read(), Bytes(2 * 300 * 125 * 4));
}

TEST_F(JointLoads, WhatNobodyNeedsIsReadToVerifyTheRest) {
  const Checkpoint checkpoint(disk_, "c/step-00000001");
  JointLoad joint(checkpoint);
  load(joint, 5, 3);
  joint.finish();
  EXPECT_EQ(checkpoint.bytes_read(),
            Bytes(300 * 100 * 4 + 300 * 125 * 4));  // four fifths, and then every block
}

TEST_F(JointLoads, AnyFlippedBitIsFound) {
  const std::string file = "c/step-00000001/" + rank_file_name(1);
  const int64_t bits = disk_.open(file)->size() * 8, data = 150 * 125 * 4 * 8;
  for (int64_t bit = bits - data; bit < bits; bit += 7919) {
    disk_.flip_bit(file, bit);
    const Checkpoint checkpoint(disk_, "c/step-00000001");
    JointLoad joint(checkpoint);
    for (int64_t part = 0; part < 3; ++part) {
      std::vector<std::byte> out(static_cast<size_t>(element_count(columns(3, part).shape()) * 4));
      joint.load_box("w", columns(3, part), out.data());
    }
    EXPECT_THROW(joint.finish(), UserError) << "bit " << bit;
    disk_.flip_bit(file, bit);
  }
}

TEST_F(JointLoads, DamageIsFoundAtOnceWhereABoxHasAllOfABlock) {
  const std::string file = "c/step-00000001/" + rank_file_name(1);
  disk_.flip_bit(file, disk_.open(file)->size() * 8 - 1);
  const Checkpoint checkpoint(disk_, "c/step-00000001");
  JointLoad joint(checkpoint);
  std::vector<std::byte> out(300 * 125 * 4);
  EXPECT_THROW(joint.load_box("w", whole_box(kRows.shape), out.data()), UserError);
}

}  // namespace
}  // namespace tessera
