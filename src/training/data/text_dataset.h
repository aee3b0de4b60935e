// Tokens as samples of a language model, and the bigram entropy of tokens.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "training/data/batch.h"
#include "training/data/internal/token_source.h"

namespace tessera {

/// The conditional entropy of a token given the previous one, in nats: -sum p(a,b) log p(b|a), by
/// counts over `tokens`; 0 without a pair. It is the smallest training loss of a model that sees
/// only the previous token.
///
///   requires  every token is in [0, vocabulary_size)
///   time      O(tokens + vocabulary_size); the order of the sum is fixed
double bigram_entropy(const std::vector<int32_t>& tokens, int vocabulary_size);
/// The same of a source, which stays where it is when the vocabulary has at most 1024 tokens.
double bigram_entropy(const TokenSource& tokens, int vocabulary_size);

/// Tokens for training and tokens for validation.
struct TextSplit {
  std::vector<int32_t> train;
  std::vector<int32_t> held_out;
};

/// The number of tokens that hold_out holds out of `count`.  throws  as hold_out
int64_t held_out_count(int64_t count, double fraction, int64_t minimum);

/// Holds out the last `fraction` of the tokens (rounded to the nearest number), at least `minimum`
/// of them. The rest, also at least `minimum`, is for training.
///   throws  UserError: 65 for fewer than 2 * minimum tokens, 78 when `fraction` is not in [0, 1)
TextSplit hold_out(std::vector<int32_t> tokens, double fraction, int64_t minimum);

/// Samples of a language model. Sample i is tokens [i * stride, i * stride + context]: the inputs
/// are all but the last, the labels all but the first. With `targets`, one for each token, the
/// labels are those of all tokens but the first; one below 0 is not counted.
///
///   samples   (tokens - 1 - context) / stride + 1
///   fields    tokens i32[context], labels i32[context]
class TextDataset : public Dataset {
 public:
  ///   throws  UserError: 65 for fewer than context + 1 tokens, 78 when context or stride is below
  ///           1
  TextDataset(TokenSourcePtr tokens, int64_t context, int64_t stride,
              TokenSourcePtr targets = nullptr);
  TextDataset(std::vector<int32_t> tokens, int64_t context, int64_t stride);
  int64_t samples() const override;
  int64_t context() const { return context_; }
  /// A hash of the tokens, of their targets and of how they are cut.
  ///   time  the first call reads all tokens
  uint64_t fingerprint() const override;
  void write(int64_t sample, int64_t row, Batch& batch) const override;

 private:
  TokenSourcePtr tokens_, targets_;
  int64_t context_;
  int64_t stride_;
  mutable std::once_flag hashed_;
  mutable uint64_t fingerprint_ = 0;
};

}  // namespace tessera
