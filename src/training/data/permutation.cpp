#include <array>

#include "base/error.h"
#include "base/random.h"
#include "training/data/sampler.h"

namespace tessera {
namespace {

constexpr int kRounds = 8;
using RoundKeys = std::array<uint32_t, kRounds>;

RoundKeys round_keys(uint64_t key, int64_t epoch, int64_t piece) {
  RoundKeys keys{};
  for (uint32_t block = 0; block < kRounds / 4; ++block) {
    // A piece fits in 31 bits, because there are never more data-parallel parts. The last word
    // distinguishes the blocks.
    const auto words = philox4x32({static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32),
                                   static_cast<uint32_t>(piece), block},
                                  {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
    for (size_t i = 0; i < 4; ++i) keys[block * 4 + i] = words[i];
  }
  return keys;
}

/// The finalizer of MurmurHash3: every bit of the word affects every bit of the result.
uint32_t mix(uint32_t word) {
  word = (word ^ (word >> 16)) * 0x85ebca6bU;
  word = (word ^ (word >> 13)) * 0xc2b2ae35U;
  return word ^ (word >> 16);
}

/// A permutation of words of 2 * half_bits bits.
uint64_t feistel(uint64_t word, int half_bits, const RoundKeys& keys) {
  const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << half_bits) - 1);
  auto left = static_cast<uint32_t>(word >> half_bits);
  auto right = static_cast<uint32_t>(word) & mask;
  for (uint32_t key : keys) {
    const uint32_t next = left ^ (mix(mix(right ^ key) + key) & mask);
    left = right;
    right = next;
  }
  return static_cast<uint64_t>(left) << half_bits | right;
}

}  // namespace

int64_t permuted(int64_t index, int64_t count, uint64_t key, int64_t epoch, int64_t piece) {
  ensure(count >= 1 && count <= int64_t{1} << 62 && index >= 0 && index < count,
         "an index of a permutation");
  if (count == 1) return 0;
  int half_bits = 1;
  while (int64_t{1} << (2 * half_bits) < count) ++half_bits;
  const RoundKeys keys = round_keys(key, epoch, piece);
  uint64_t word = index;
  do word = feistel(word, half_bits, keys);
  while (word >= static_cast<uint64_t>(count));
  return word;
}

}  // namespace tessera
