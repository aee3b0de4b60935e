// Tokens by position, wherever they are: in memory, or in the bytes of files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/tensor/split.h"
#include "training/data/text_files.h"

namespace tessera {

/// A sequence of tokens.  threads  any number at the same time, because it is immutable
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t size() const = 0;
  /// Copies the tokens from `begin` on.
  ///   requires  0 <= begin, begin + to.size() <= size()
  virtual void copy(int64_t begin, std::span<int32_t> to) const = 0;
};
using TokenSourcePtr = std::shared_ptr<const TokenSource>;

TokenSourcePtr tokens_in_memory(std::vector<int32_t> tokens);
/// Each byte of the text is a token.
TokenSourcePtr tokens_of_bytes(std::shared_ptr<const TextFiles> text);
/// Whole numbers of 16 or 32 bits, little endian and without a header, in all files in order: what
/// numpy.tofile writes, and the .bin files of Megatron-LM and nanoGPT. They are read as they are
/// needed.
///   bits    16 or 32
///   throws  UserError: 66 when a file cannot be read, 65 when it is cut inside of a token
TokenSourcePtr tokens_of_numbers(const std::vector<std::filesystem::path>& files, int bits);
/// A range of the tokens of another source, counted from 0.
TokenSourcePtr tokens_of_range(TokenSourcePtr whole, Range range);

/// Calls visit(span of tokens) for all tokens in order, block by block.
template <typename Visit>
void for_each_block(const TokenSource& tokens, const Visit& visit) {
  constexpr int64_t kBlock = 1 << 16;
  std::vector<int32_t> block;
  for (int64_t begin = 0; begin < tokens.size(); begin += kBlock) {
    block.resize(std::min(kBlock, tokens.size() - begin));
    tokens.copy(begin, block);
    visit(std::span<const int32_t>(block));
  }
}

}  // namespace tessera
