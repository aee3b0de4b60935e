#include "compiler/lower/storage/testing/random_blocks.h"

#include <random>

#include "base/tensor/tensor.h"

namespace tessera {
namespace {

/// The same numbers with every standard library, unlike its distributions.
class Sampler {
 public:
  explicit Sampler(unsigned seed) : engine_(seed) {}
  /// From 0 to `count` - 1.
  int operator()(int count) { return static_cast<int>(engine_() % static_cast<unsigned>(count)); }

 private:
  std::mt19937 engine_;
};

}  // namespace

LiveBlocks random_blocks(const RandomBlocks& largest, unsigned seed) {
  Sampler sample(seed);
  LiveBlocks blocks;
  for (int i = 0; i < largest.count; ++i) {
    LiveBlock block;
    block.bytes = (1 + sample(largest.units)) * kTensorAlignment;
    block.begin = sample(largest.instants);
    block.end = block.begin + sample(largest.length);
    block.is_read_elsewhere = sample(largest.elsewhere_in) == 0;
    blocks.push_back(block);
  }
  return blocks;
}

LiveBlocks perfect_packing(int count, unsigned seed) {
  Sampler sample(seed);
  LiveBlocks blocks = {{count * kTensorAlignment, 0, 4 * count - 1}};
  while (blocks.size() < count) {
    LiveBlock& block = blocks[BlockIndex(sample(blocks.size()))];
    LiveBlock other = block;
    const int units = static_cast<int>(block.bytes / kTensorAlignment);
    if (sample(2) == 0 && block.begin < block.end) {
      block.end = block.begin + sample(block.end - block.begin);
      other.begin = block.end + 1;
    } else if (units > 1) {
      block.bytes = (1 + sample(units - 1)) * kTensorAlignment;
      other.bytes -= block.bytes;
    } else {
      continue;
    }
    blocks.push_back(other);
  }
  return blocks;
}

}  // namespace tessera
