// Counter-based random numbers. A number depends only on the key and the counter, so every rank
// computes the same one at any time.
//
//   source  Philox 4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011)
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera {

/// Four random words for one counter and key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The key of a random op: a hash of the run's seed and the op's name.
uint64_t random_key(uint64_t seed, std::string_view name);

/// The 64-bit FNV-1a hash of a text, which is the same on every machine.
uint64_t stable_hash(std::string_view text, uint64_t start = 0xcbf29ce484222325ULL);

/// The step of a stream inside a loop. Each iteration has a step of its own; iteration 0 has the
/// step of the run.
inline uint64_t random_step(int32_t step, int32_t iteration) {
  return static_cast<uint64_t>(step) + (static_cast<uint64_t>(iteration) << 32);
}

/// A stream of numbers addressed by (step, index in the logical tensor). Step 0 is initialisation.
class RandomStream {
 public:
  RandomStream(uint64_t key, uint64_t step) : key_(key), step_(step) {}
  /// Uniform in [0, 1) with 24 random bits, so exact in f32.
  float uniform(uint64_t index) const;
  /// Normal with mean 0 and deviation 1 (Box and Muller), one block per element, without rejection.
  float normal(uint64_t index) const;
  /// Fills out[0..count) with uniform(first), uniform(first + 1), ..., a block of four words at a
  /// time.
  void uniform_run(uint64_t first, int64_t count, float* out) const;

 private:
  uint64_t key_;
  uint64_t step_;
};

}  // namespace tessera
