#include "training/engine/internal/text/text_generator.h"

#include <algorithm>
#include <iterator>

#include "training/engine/internal/steps/step_checks.h"

namespace tessera {

void TextGenerator::check_call(const char* what) const {
  check_none_in_flight(programs_.runtime().steps_in_flight(), what);
  check_predicts(programs_.network());
}

std::vector<float> TextGenerator::predict(const std::vector<int32_t>& tokens) {
  check_call("predict()");
  const LanguageModel& model = *programs_.network().language;
  LoadedProgram& program = programs_.get(Purpose::kPredict);
  const auto used = std::min<int64_t>(model.context, std::ssize(tokens));
  const NextToken next = model.next_token(used);
  Tensor input(TensorType{DType::kI32, {1, model.context}});
  std::copy(tokens.end() - used, tokens.end(), input.values<int32_t>().begin() + next.first);
  TensorMap results;
  programs_.runtime().run(program, {{"tokens", &input}}, results);
  const Tensor& all = results.at("logits");
  const auto logits = all.values<float>();
  const int64_t width = all.shape()[all.shape().size() - 1];
  return {logits.begin() + next.row * width, logits.begin() + (next.row + 1) * width};
}

std::span<const float> TextGenerator::decode(int32_t token, int64_t position) {
  token_.values<int32_t>()[0] = token;
  position_.values<int32_t>()[0] = static_cast<int32_t>(position);
  programs_.runtime().run(programs_.get(Purpose::kDecode), decode_inputs_, decoded_);
  return decoded_.at("logits").values<float>();
}

std::vector<int32_t> TextGenerator::generate(std::vector<int32_t> prompt, int64_t count,
                                             const SamplingOptions& options) {
  check_call("generate()");
  const LanguageModel& model = *programs_.network().language;
  const int64_t start = std::ssize(prompt);
  int64_t decoded = 0;  // tokens of the text so far
  const auto next_logits = [&]() -> std::vector<float> {
    const int64_t used = std::ssize(prompt);
    if (used == 0 || used > model.context || !options.cache || !model.can_decode)
      return predict(prompt);
    std::span<const float> logits;
    for (; decoded < used; ++decoded) logits = decode(prompt[decoded], decoded);
    return {logits.begin(), logits.end()};
  };
  for (int64_t i = 0; i < count; ++i)
    prompt.push_back(sample_token(next_logits(), options, static_cast<uint64_t>(i)));
  return {prompt.begin() + start, prompt.end()};
}

}  // namespace tessera
