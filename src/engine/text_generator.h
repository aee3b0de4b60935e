// Predicts and generates tokens with a language model.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/program_set.h"
#include "engine/sampling.h"

namespace tessera {

class TextGenerator {
 public:
  /// `programs` outlives it.
  explicit TextGenerator(ProgramSet& programs) : programs_(programs) {}
  TextGenerator(const TextGenerator&) = delete;  // decode_inputs_ points into it
  TextGenerator& operator=(const TextGenerator&) = delete;

  /// Does Engine::predict.
  std::vector<float> predict(const std::vector<int32_t>& tokens);
  /// Does Engine::generate.
  std::vector<int32_t> generate(std::vector<int32_t> prompt, int64_t count,
                                const SamplingOptions& options);

 private:
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
