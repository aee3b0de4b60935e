#include "training/checkpoint/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are little endian, and are written as memory stands");

using Tables = std::array<std::array<uint32_t, 256>, 8>;

/// Table k: the contribution of a byte that is k bytes before the end of eight to the checksum.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82F63B78U : 0U);
    tables[0][byte] = value;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}

constexpr Tables kTables = make_tables();

uint32_t add_byte(uint32_t state, std::byte byte) {
  return (state >> 8) ^ kTables[0][(state ^ static_cast<uint32_t>(byte)) & 0xff];
}

uint64_t word_at(const std::byte* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

#if defined(__x86_64__)
/// Uses the processor's own instruction, which is about four times as fast as the tables.
__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(std::span<const std::byte> bytes,
                                                                 uint32_t before) {
  uint64_t state = ~before;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8)
    state = __builtin_ia32_crc32di(state, word_at(bytes.data() + i));
  auto last = static_cast<uint32_t>(state);
  for (; i < bytes.size(); ++i)
    last = __builtin_ia32_crc32qi(last, static_cast<unsigned char>(bytes[i]));
  return ~last;
}
#endif

/// A linear map of checksums: the image of each of their bits.
using BitMap = std::array<uint32_t, 32>;

constexpr uint32_t times(const BitMap& map, uint32_t value) {
  uint32_t result = 0;
  for (size_t bit = 0; value != 0; ++bit, value >>= 1)
    if (value & 1) result ^= map[bit];
  return result;
}

/// Map k: the effect of 2^k bytes of zeros on a state.
constexpr std::array<BitMap, 48> make_zeros() {
  std::array<BitMap, 48> zeros{};
  for (size_t bit = 0; bit < 32; ++bit) {
    const uint32_t state = uint32_t{1} << bit;
    zeros[0][bit] = (state >> 8) ^ kTables[0][state & 0xff];
  }
  for (size_t k = 1; k < zeros.size(); ++k)
    for (size_t bit = 0; bit < 32; ++bit) zeros[k][bit] = times(zeros[k - 1], zeros[k - 1][bit]);
  return zeros;
}

constexpr std::array<BitMap, 48> kZeros = make_zeros();

uint32_t add_zeros(uint32_t state, int64_t count) {
  for (size_t k = 0; count != 0; ++k, count >>= 1)
    if (count & 1) state = times(kZeros[k], state);
  return state;
}

}  // namespace

uint32_t crc32c_by_tables(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t state = ~before;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = word_at(bytes.data() + i) ^ state;
    state = 0;
    for (size_t k = 0; k < 8; ++k) state ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; i < bytes.size(); ++i) state = add_byte(state, bytes[i]);
  return ~state;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_by_instruction(bytes, before);
#endif
  return crc32c_by_tables(bytes, before);
}

uint32_t crc32c_share(std::span<const std::byte> bytes, int64_t bytes_after) {
  return add_zeros(~crc32c(bytes, ~uint32_t{0}),
                   bytes_after);  // from the state 0, and without the last negation
}

uint32_t crc32c_of_shares(uint32_t shares, int64_t size) {
  return ~(shares ^ add_zeros(~uint32_t{0}, size));
}

uint32_t crc32c(std::string_view text, uint32_t before) {
  return crc32c(std::as_bytes(std::span<const char>(text.data(), text.size())), before);
}

std::string checksum_text(uint32_t checksum) {
  std::string text(8, '0');
  for (size_t i = 0; i < 8; ++i) text[i] = "0123456789abcdef"[(checksum >> (28 - 4 * i)) & 0xf];
  return text;
}

}  // namespace tessera
