#include "training/checkpoint/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "training/checkpoint/crc32c.h"
#include "training/checkpoint/testing/stored_model.h"

namespace tessera {
namespace {

TEST(CheckpointIndex, BlocksHaveAtLeastAPageAndAreAtMost512) {
  EXPECT_EQ(block_bytes_for(0), 4096);
  EXPECT_EQ(block_bytes_for(512 * 4096), 4096);
  EXPECT_EQ(block_bytes_for(512 * 4096 + 1), 4160);  // the next multiple of 64
  EXPECT_EQ(block_bytes_for(int64_t{1} << 30), int64_t{1} << 21);
}

TEST(CheckpointIndex, EveryBlockHasItsChecksum) {
  const std::vector<std::byte> bytes(10000, std::byte{7});
  const BlockChecksums checksums = block_checksums(bytes);
  const std::span<const std::byte> all(bytes);
  EXPECT_THAT(checksums.blocks,
              testing::ElementsAre(crc32c(all.first(4096)), crc32c(all.subspan(4096, 4096)),
                                   crc32c(all.subspan(8192))));
  EXPECT_TRUE(block_checksums({}).blocks.empty());
}

/// f32[4,2] in two parts of a file with a header of 100 bytes.
CheckpointIndex small_index() {
  CheckpointIndex index{5, 1, {{"f", {132, 100, 0xabcdef01}}}, {}};
  const TensorType whole{DType::kF32, {4, 2}};
  index.tensors["w"] = {whole,
                        {{"f", "w", 100, Box{{{0, 3}, {0, 2}}}, {4096, {1}}},
                         {"f", "w#1", 124, Box{{{3, 4}, {0, 2}}}, {4096, {0xffffffff}}}}};
  return index;
}

TEST(CheckpointIndex, IsWrittenAsJsonAndReadsBackTheSame) {
  const Document document = to_document(small_index());
  EXPECT_EQ(
      to_json(document),
      R"({"format":"tessera.checkpoint","version":1,"step":5,"ranks":1,)"
      R"("files":{"f":{"bytes":132,"header_bytes":100,"header_checksum":"abcdef01"}},)"
      R"("tensors":{"w":{"dtype":"F32","shape":[4,2],"parts":[)"
      R"({"file":"f","entry":"w","offset":100,"offsets":[0,0],"shape":[3,2],"block_bytes":4096,)"
      R"("checksums":"00000001"},)"
      R"({"file":"f","entry":"w#1","offset":124,"offsets":[3,0],"shape":[1,2],"block_bytes":4096,)"
      R"("checksums":"ffffffff"}]}}})");
  EXPECT_EQ(to_document(parse_index(document, "index.json")), document);
}

/// The message for the small index after `text` was replaced by `other` in it.
std::string message_with(const std::string& text, const std::string& other) {
  std::string json = to_json(to_document(small_index()));
  const size_t place = json.find(text);
  EXPECT_NE(place, std::string::npos) << text;
  json.replace(place, text.size(), other);
  return message_of([&] { parse_index(parse_json(json, "i"), "i"); });
}

TEST(CheckpointIndex, WhatPointsOutsideIsRefused) {
  const std::string fix = "\n  fix: use another checkpoint";
  EXPECT_EQ(message_with("\"offset\":124", "\"offset\":125"),  // 125 + 8 > 132
            "65 'i': tensor 'w' has 8 bytes at byte 125 of 'f'\n  why: that is outside of the data "
            "of the files that it lists" +
                fix);
  EXPECT_EQ(message_with("\"offset\":124", "\"offset\":99"),
            "65 'i': tensor 'w' has 8 bytes at byte 99 of 'f'\n  why: that is outside of the data "
            "of the files that it lists" +
                fix);
  EXPECT_EQ(message_with("\"offset\":124", "\"offset\":9223372036854775807"),
            "65 'i': tensor 'w' has 8 bytes at byte 9223372036854775807 of 'f'\n"
            "  why: that is outside of the data of the files that it lists" +
                fix);
  EXPECT_EQ(message_with("{\"file\":\"f\"", "{\"file\":\"g\""),
            "65 'i': tensor 'w' has 24 bytes at byte 100 of 'g'\n  why: that is outside of the "
            "data of the files that it lists" +
                fix);
  EXPECT_EQ(message_with("[3,0]", "[4,0]"),
            "65 'i': tensor 'w' has a part of shape [1,2] at offsets [4,0]\n  why: it must lie "
            "inside of the tensor's shape [4,2]" +
                fix);
  EXPECT_EQ(message_with("[3,0]", "[9223372036854775807,0]"),
            "65 'i': tensor 'w' has a part of shape [1,2] at offsets [9223372036854775807,0]\n"
            "  why: it must lie inside of the tensor's shape [4,2]" +
                fix);
  EXPECT_EQ(message_with("[3,0]", "[3]"),
            "65 'i': tensor 'w' has a part of shape [1,2] at offsets [3]\n  why: it must lie "
            "inside of the tensor's shape [4,2]" +
                fix);
  EXPECT_EQ(
      message_with("\"f\":{", "\"../f\":{"),
      "65 'i' names the file '../f'\n  why: the files of a checkpoint lie in its own folder" + fix);
}

TEST(CheckpointIndex, WhatDoesNotTileIsRefused) {
  EXPECT_EQ(message_with("[3,0]", "[2,0]"),
            "65 'i': tensor 'w' is stored twice in part\n  why: [0:3, 0:2] of 'f' and [2:3, 0:2] "
            "of 'f' overlap\n"
            "  fix: let one rank alone store each element");
  EXPECT_EQ(
      message_with("\"shape\":[4,2]", "\"shape\":[5,2]"),
      "65 'i': tensor 'w' is incomplete\n  why: its parts hold 8 of the 10 elements of f32[5,2]\n"
      "  fix: let every element be stored by one rank");
}

TEST(CheckpointIndex, MalformedFieldsAreRefused) {
  const std::string fix = "\n  fix: use another checkpoint",
                    rewrite = "\n  fix: write the file again with a tool that keeps to the format";
  EXPECT_EQ(message_with("\"version\":1", "\"version\":2"),
            "65 'i' has format version 2\n  why: this program reads version 1\n  fix: read it with "
            "the version of Tessera that wrote it");
  EXPECT_EQ(
      message_with("tessera.checkpoint", "other"),
      "65 'i' is no index of a checkpoint\n  why: its format is 'other', not 'tessera.checkpoint'" +
          fix);
  EXPECT_EQ(message_with("\"step\":5", "\"step\":5,\"when\":0"),
            "65 'i': the index has the unknown key when\n  why: its keys are files, format, ranks, "
            "step, tensors, version" +
                rewrite);
  EXPECT_EQ(message_with("00000001", "0000000x"),
            "65 'i': tensor 'w' has the malformed checksums '0000000x'\n  why: a checksum has "
            "eight hexadecimal digits" +
                fix);
  EXPECT_EQ(message_with("00000001", "0000"),
            "65 'i': tensor 'w' has the malformed checksums '0000'\n  why: a checksum has eight "
            "hexadecimal digits" +
                fix);
  EXPECT_EQ(message_with("00000001", ""),
            "65 'i': tensor 'w' has 0 checksums\n  why: 24 bytes in blocks of 4096 have 1" + fix);
  EXPECT_EQ(message_with("\"block_bytes\":4096", "\"block_bytes\":0"),
            "65 'i': tensor 'w' has 1 checksums\n  why: 24 bytes in blocks of 0 have 0" + fix);
  EXPECT_EQ(message_with("\"F32\"", "\"C64\""),
            "65 'i': tensor 'w' has the element type 'C64'\n"
            "  why: checkpoints hold F32, I32, BOOL, F64, I64, I8, U8, F16 or BF16" +
                fix);
  EXPECT_EQ(message_with("\"shape\":[4,2]", "\"shape\":[4611686018427387904,2]"),
            "65 'i': tensor 'w' has too large a shape\n  why: a tensor has at most 8 dims and 2^60 "
            "elements" +
                fix);
}

TEST(CheckpointIndex, ManyPartsInAGridTile) {
  // 20 x 30 boxes of 2 x 1, given from the last to the first.
  IndexTensor stored{{DType::kF32, {40, 30}}, {}};
  for (int64_t i = 19; i >= 0; --i)
    for (int64_t j = 29; j >= 0; --j)
      stored.parts.push_back({"f", "w", 0, Box{{{2 * i, 2 * i + 2}, {j, j + 1}}}, {}});
  EXPECT_EQ(message_of([&] { check_parts_tile("w", stored, "i"); }), "no error");
  stored.parts[17].box.ranges[1] = {0, 1};
  EXPECT_THAT(message_of([&] { check_parts_tile("w", stored, "i"); }),
              testing::HasSubstr("tensor 'w' is stored twice in part"));
}

}  // namespace
}  // namespace tessera
