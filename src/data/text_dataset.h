// Tokens as samples of a language model, and what is known of tokens before a model sees them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/split.h"
#include "base/tensor.h"
#include "data/sampler.h"

namespace tessera {

/// Conditional entropy of a token given the one before it, in nats: -sum p(a,b) log p(b|a), by counts over `tokens`; 0 without a pair.
/// What a model that knows only the last token can reach at best on its own training text.
///
///   requires  every token is in [0, vocabulary_size)
///   time      O(tokens + vocabulary_size); the order of the sum is fixed
double bigram_entropy(const std::vector<int32_t>& tokens, int vocabulary_size);

/// Tokens to train on and tokens that training never sees.
struct TextSplit {
  std::vector<int32_t> train;
  std::vector<int32_t> held_out;
};

/// The last `fraction` of the tokens (to the nearest token), at least `minimum` of them, is held out; the rest, at least `minimum` too, is
/// for training.
/// throws  UserError: fewer than 2 * minimum tokens (65), or `fraction` is not in [0, 1) (78)
TextSplit hold_out(std::vector<int32_t> tokens, double fraction, int64_t minimum);

/// Rows of a batch.
struct TextBatch {
  Tensor inputs;  // i32[rows, context]
  Tensor labels;  // i32[rows, context]
};

/// Language-model samples: sample i is tokens [i * stride, i * stride + context] with inputs all but the last and labels all but the first.
///
///   samples   (tokens - 1 - context) / stride + 1
class TextDataset {
 public:
  /// throws  UserError: there are not context + 1 tokens (65), or context or stride is below 1 (78)
  TextDataset(std::vector<int32_t> tokens, int64_t context, int64_t stride);
  int64_t samples() const;
  int64_t context() const { return context_; }
  /// Of the tokens and of how they are cut: the same for the same samples.
  uint64_t fingerprint() const { return fingerprint_; }
  /// Rows [rows.begin, rows.end) of the batch of `step`: any rank can make exactly the rows that it needs.
  ///   requires  the sampler is made for samples() samples, and its batch has these rows
  TextBatch batch(const Sampler& sampler, int64_t step, Range rows) const;
  /// The same into a batch that is there already; its tensors are made anew only when their shape is another.
  void fill(const Sampler& sampler, int64_t step, Range rows, TextBatch& batch) const;

 private:
  std::vector<int32_t> tokens_;
  int64_t context_;
  int64_t stride_;
  uint64_t fingerprint_;
};

}  // namespace tessera
