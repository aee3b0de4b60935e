// Predicts and generates tokens with a language model.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "training/engine/internal/programs/program_set.h"
#include "training/engine/text/sampling.h"

namespace tessera {

class TextGenerator {
 public:
  /// `programs` outlives it.
  explicit TextGenerator(ProgramSet& programs) : programs_(programs) {}
  TextGenerator(const TextGenerator&) = delete;  // decode_inputs_ points into it
  TextGenerator& operator=(const TextGenerator&) = delete;

  // Both throw UserError (2) when the network does not predict the next token, or a step is in
  // flight.

  /// The logits of the token after `tokens`, of which the last `context` count. Shorter texts are
  /// padded in front with token 0.
  std::vector<float> predict(const std::vector<int32_t>& tokens);
  /// `count` tokens after `prompt`, each sampled from the logits after all tokens before it. The
  /// result is the same under every plan up to rounding of the logits.
  std::vector<int32_t> generate(std::vector<int32_t> prompt, int64_t count,
                                const SamplingOptions& options);

 private:
  void check_call(const char* what) const;
  /// The logits after `token` at `position`.
  ///   requires  the positions before it have been decoded
  std::span<const float> decode(int32_t token, int64_t position);

  ProgramSet& programs_;
  Tensor token_ = Tensor::of<int32_t>({1, 1}, {0});
  Tensor position_ = Tensor::scalar(int32_t{0});
  const std::map<std::string, const Tensor*> decode_inputs_{{"tokens", &token_},
                                                            {"place", &position_}};
  TensorMap decoded_;  // the logits of the last position
};

}  // namespace tessera
