// Text that the project makes: a Markov chain whose entropy rate is known, so that a trained model
// can be held against the truth.
#pragma once

#include "data/batch.h"

namespace tessera {

/// A chain of `states` tokens; what follows a token depends on that token alone.
///
///   transitions   drawn from the seed: weights u^4 + 0.01 of uniform numbers u, so that some steps
///   are likely and none is impossible stationary    pi with pi P = pi, by powers of P; every
///   sample starts in it, so the same entropies hold at every place
class MarkovChain {
 public:
  /// throws  UserError (78): fewer than 2 states
  MarkovChain(int64_t states, uint64_t seed);
  /// With given rows of probabilities P[a][b], each summing to 1.
  explicit MarkovChain(std::vector<std::vector<double>> transitions);

  int64_t states() const { return std::ssize(transitions_); }
  const std::vector<std::vector<double>>& transitions() const { return transitions_; }
  const std::vector<double>& stationary() const { return stationary_; }

  /// H = -sum_a pi_a sum_b P_ab log P_ab, in nats: the least mean loss of a next token.
  /// Source: Cover and Thomas, Elements of Information Theory, 2nd ed., theorem 4.2.4.
  double entropy_rate() const;
  /// Of a token whose two neighbours are seen: H(X1 | X0, X2) = 2 H - H(X2 | X0), in nats, where X2
  /// given X0 follows P^2; what stands further away says nothing more. The least mean loss of a
  /// masked token.
  double masked_entropy() const;

  /// The token for the uniform number `u` in [0, 1): of a start, or after `last`.
  int32_t start(double u) const;
  int32_t next(int32_t last, double u) const;

 private:
  std::vector<std::vector<double>> transitions_;
  std::vector<double> stationary_;
};

/// Sample i: context + 1 tokens of the chain, of which the first `context` are the tokens and the
/// last `context` the labels; drawn by (seed, i), independent of all others.
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

/// Tokens of which some are hidden and asked for: of each block of `block` places one that is
/// neither its first nor its last, drawn by (seed, sample), so that the neighbours of a masked
/// place are always seen. There the token is `mask` and the label what stood there; all other
/// labels are -1. What is left of a whole number of blocks is not masked. (BERT masks places
/// independently, and puts another token or the same one there a fifth of the time; here the
/// entropy of what is asked for is known.)
///
///   requires  block >= 3; whole has the fields of token_fields
class MaskedTokens : public Dataset {
 public:
  /// throws  UserError (78): the context has no whole block
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
