#include "base/random.h"

#include <cmath>

namespace tessera {
namespace {

constexpr float kTwoToMinus24 = 1.0f / 16777216.0f;

float to_unit(uint32_t word) {
  return static_cast<float>(word >> 8) * kTwoToMinus24;
}

uint32_t low_word(uint64_t value) {
  return static_cast<uint32_t>(value);
}
uint32_t high_word(uint64_t value) {
  return low_word(value >> 32);
}

std::array<uint32_t, 4> block(uint64_t key, uint64_t step, uint64_t index) {
  return philox4x32({low_word(index), high_word(index), low_word(step), high_word(step)},
                    {low_word(key), high_word(key)});
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiply0 * c[0];
    const uint64_t p1 = kMultiply1 * c[2];
    c = {high_word(p1) ^ c[1] ^ k[0], low_word(p1), high_word(p0) ^ c[3] ^ k[1], low_word(p0)};
    k[0] += kWeyl0;
    k[1] += kWeyl1;
  }
  return c;
}

uint64_t stable_hash(std::string_view text, uint64_t start) {
  uint64_t hash = start;
  for (unsigned char letter : text) hash = (hash ^ letter) * 0x100000001b3ULL;
  return hash;
}

uint64_t random_key(uint64_t seed, std::string_view name) {
  uint64_t hash = stable_hash(name) ^ (seed * 0x9E3779B97F4A7C15ULL);
  // The finalizer of SplitMix64: similar seeds give unrelated keys.
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9ULL;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBULL;
  return hash ^ (hash >> 31);
}

float RandomStream::uniform(uint64_t index) const {
  return to_unit(block(key_, step_, index / 4)[index % 4]);
}

float RandomStream::normal(uint64_t index) const {
  // The key of the normal numbers differs, so that the two distributions use different blocks.
  const auto words = block(key_ ^ 0x5851F42D4C957F2DULL, step_, index);
  const double radius = std::sqrt(-2.0 * std::log((words[0] + 1.0) * 0x1p-32));
  return static_cast<float>(radius * std::cos(2.0 * M_PI * (words[1] * 0x1p-32)));
}

void RandomStream::uniform_run(uint64_t first, int64_t count, float* out) const {
  int64_t i = 0;
  while (i < count) {
    const uint64_t index = first + i;
    const auto words = block(key_, step_, index / 4);
    for (uint64_t word = index % 4; word < 4 && i < count; ++word) out[i++] = to_unit(words[word]);
  }
}

}  // namespace tessera
