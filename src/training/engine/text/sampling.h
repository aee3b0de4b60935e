// Samples a token from the logits of a language model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// Options of sampling. The filters act in this order, as in generate() of the transformers
/// library:
///
///   temperature  the logits are divided by it; 0: the most probable token is taken, and nothing is
///                sampled
///   top_k        only the top_k most probable tokens remain; 0: all
///   top_p        of these, the fewest most probable tokens whose probabilities sum to top_p or
///                more remain (the nucleus); 1: all
///   seed         of the random numbers: token number `draw` of a text takes number `draw` of the
///                seed
///   cache        whether the keys and values of earlier tokens are kept, by models that can decode
///                (ir/models/model.h), as long as the text fits into the context; otherwise all of
///                it is read anew for each token
///
/// Among equally probable tokens, the lower one ranks first. The remaining tokens are sampled by
/// their probabilities, scaled to a sum of 1.
struct SamplingOptions {
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 1;
  bool cache = true;
};

///   throws  UserError (2) for a temperature or top_k below 0, or a top_p outside (0, 1]
void check(const SamplingOptions& options);

/// The probability of each token; 0 for those that a filter removed.
///   requires  logits is not empty, and holds no NaN
///   source    nucleus: Holtzman et al., The curious case of neural text degeneration, ICLR 2020
std::vector<double> token_probabilities(std::span<const float> logits,
                                        const SamplingOptions& options);

/// The token that the random number with index `draw` selects.
int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, uint64_t draw);

}  // namespace tessera
