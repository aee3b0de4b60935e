#include "training/checkpoint/crc32c.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

/// The definition, bit by bit.
uint32_t plain_crc32c(std::span<const std::byte> bytes) {
  uint32_t state = 0xffffffffU;
  for (std::byte byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool carry = ((state ^ (static_cast<uint32_t>(byte) >> bit)) & 1) != 0;
      state = (state >> 1) ^ (carry ? 0x82F63B78U : 0U);
    }
  return ~state;
}

std::vector<std::byte> some_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 131 + 7) % 251);
  return bytes;
}

TEST(Crc32c, HasTheKnownAnswersOfTheStandard) {
  EXPECT_EQ(crc32c(std::string_view("")), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  // RFC 3720, B.4: 32 bytes of zeros, of ones, ascending.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
}

TEST(Crc32c, InstructionAndTablesAreTheDefinitionAtEveryLengthAndPlace) {
  const std::vector<std::byte> bytes = some_bytes(80);
  for (size_t begin = 0; begin < 9; ++begin)
    for (size_t length = 0; begin + length <= bytes.size(); ++length) {
      const std::span<const std::byte> piece = std::span(bytes).subspan(begin, length);
      EXPECT_EQ(crc32c(piece), plain_crc32c(piece));
      EXPECT_EQ(crc32c_by_tables(piece), plain_crc32c(piece));
    }
}

TEST(Crc32c, GoesOnFromTheChecksumOfWhatCameBefore) {
  const std::vector<std::byte> bytes = some_bytes(50);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const auto first = std::span(bytes).first(cut), rest = std::span(bytes).subspan(cut);
    EXPECT_EQ(crc32c(rest, crc32c(first)), plain_crc32c(bytes));
    EXPECT_EQ(crc32c_by_tables(rest, crc32c_by_tables(first)), plain_crc32c(bytes));
  }
}

TEST(Crc32c, EveryFlippedBitChangesIt) {
  std::vector<std::byte> bytes = some_bytes(64);
  const uint32_t whole = crc32c(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(crc32c(bytes), whole);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(Crc32c, PrintsEightDigits) {
  EXPECT_EQ(checksum_text(0xe3069283u), "e3069283");
  EXPECT_EQ(checksum_text(0x1fu), "0000001f");
}

}  // namespace
}  // namespace tessera
