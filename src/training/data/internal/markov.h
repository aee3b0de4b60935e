// Synthetic text: a Markov chain with a known entropy rate, which is the smallest loss that a
// trained model can reach.
#pragma once

#include "training/data/batch.h"

namespace tessera {

/// A chain of `states` tokens: the distribution of the next token depends only on the last one.
///
///   transitions  sampled from the seed: weights u^4 + 0.01 of uniform numbers u, so that some
///                transitions are probable and none is impossible
///   stationary   pi with pi P = pi, by powers of P; every sample starts in it, so the entropies
///                are the same at every position
class MarkovChain {
 public:
  ///   throws  UserError (78) for fewer than 2 states
  MarkovChain(int64_t states, uint64_t seed);
  /// With given rows of probabilities P[a][b], each summing to 1.
  explicit MarkovChain(std::vector<std::vector<double>> transitions);

  int64_t states() const { return std::ssize(transitions_); }
  const std::vector<std::vector<double>>& transitions() const { return transitions_; }
  const std::vector<double>& stationary() const { return stationary_; }

  /// H = -sum_a pi_a sum_b P_ab log P_ab, in nats: the smallest mean loss of a next token.
  ///   source  Cover and Thomas, Elements of Information Theory, 2nd ed., theorem 4.2.4
  double entropy_rate() const;
  /// The entropy of a token whose two neighbours are known: H(X1 | X0, X2) = 2 H - H(X2 | X0), in
  /// nats, where X2 given X0 follows P^2. Tokens further away add no information. This is the
  /// smallest mean loss of a masked token.
  double masked_entropy() const;

  /// The first token, or the token after `last`, for the uniform number `u` in [0, 1).
  int32_t start(double u) const;
  int32_t next(int32_t last, double u) const;

 private:
  std::vector<std::vector<double>> transitions_;
  std::vector<double> stationary_;
};

/// Samples of a chain. Sample i has context + 1 tokens: the first `context` are the tokens, the
/// last `context` are the labels. It depends only on (seed, i).
class MarkovDataset : public Dataset {
 public:
  MarkovDataset(MarkovChain chain, int64_t context, int64_t samples, uint64_t seed);
  int64_t samples() const override { return samples_; }
  uint64_t fingerprint() const override;
  void write(int64_t sample, int64_t row, Batch& batch) const override;

 private:
  MarkovChain chain_;
  int64_t samples_;
  uint64_t seed_;
};

/// Masked tokens to predict. In each block of `block` positions, one position that is neither the
/// first nor the last is masked, sampled by (seed, sample), so that both neighbours of a masked
/// token are visible. Its token is `mask` and its label is the original token; all other labels are
/// -1. An incomplete last block is not masked. (BERT masks positions independently, and keeps or
/// replaces a fifth of the tokens; here the entropy of the masked tokens is known.)
///
///   requires  block >= 3; whole has the fields of token_fields
class MaskedTokens : public Dataset {
 public:
  ///   throws  UserError (78) when the context has no whole block
  MaskedTokens(DatasetPtr whole, int64_t block, int32_t mask, uint64_t seed);
  int64_t samples() const override { return whole_->samples(); }
  uint64_t fingerprint() const override;
  void write(int64_t sample, int64_t row, Batch& batch) const override;

 private:
  DatasetPtr whole_;
  int64_t block_;
  int32_t mask_;
  uint64_t seed_;
};

}  // namespace tessera
