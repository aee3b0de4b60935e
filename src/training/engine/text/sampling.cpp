#include "training/engine/text/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "base/text/text.h"

namespace tessera {
namespace {

/// The tokens by descending probability; of equal ones, the lower one first.
std::vector<size_t> by_likelihood(std::span<const float> logits) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  return order;
}

/// Scales the probabilities of `tokens` to a sum of 1.
void normalize(std::vector<double>& probabilities, std::span<const size_t> tokens) {
  double sum = 0;
  for (size_t token : tokens) sum += probabilities[token];
  for (size_t token : tokens) probabilities[token] /= sum;
}

/// The number of tokens of `order` in the nucleus.
size_t nucleus_size(const std::vector<double>& probabilities, std::span<const size_t> order,
                    double top_p) {
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i)
    if ((sum += probabilities[order[i]]) >= top_p) return i + 1;
  return order.size();  // the sum of the rounded probabilities is below top_p
}

}  // namespace

void check(const SamplingOptions& options) {
  const auto refuse = [](const std::string& what, const std::string& why, const std::string& fix) {
    throw UserError(what, why, fix, ExitCode::kUsage);
  };
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    refuse("a temperature of " + double_text(options.temperature) + " is not possible",
           "logits are divided by it, and 0 takes the likeliest",
           "set it to 0 or more, such as 0.8");
  if (options.top_k < 0)
    refuse("a top-k of " + std::to_string(options.top_k) + " is not possible",
           "it is the number of tokens to sample from, and 0 leaves all",
           "set it to 0 or more, such as 40");
  if (!(options.top_p > 0 && options.top_p <= 1))
    refuse("a top-p of " + double_text(options.top_p) + " is not possible",
           "it is the total probability of the tokens to sample from: above 0 and at most 1",
           "set it to 1, or less, such as 0.9");
}

std::vector<double> token_probabilities(std::span<const float> logits,
                                        const SamplingOptions& options) {
  ensure(!logits.empty(), "a token is sampled from at least one");
  const std::vector<size_t> order = by_likelihood(logits);
  std::vector<double> probabilities(logits.size(), 0.0);
  if (options.temperature == 0) {
    probabilities[order.front()] = 1;
    return probabilities;
  }
  const size_t top_k = options.top_k == 0
                           ? order.size()
                           : std::min(order.size(), static_cast<size_t>(options.top_k));
  std::span<const size_t> left(order.data(), top_k);
  const double largest = logits[order.front()];
  for (size_t token : left)
    probabilities[token] = std::exp((logits[token] - largest) / options.temperature);
  normalize(probabilities, left);
  if (options.top_p == 1) return probabilities;
  const size_t nucleus = nucleus_size(probabilities, left, options.top_p);
  for (size_t token : left.subspan(nucleus)) probabilities[token] = 0;
  normalize(probabilities, left.first(nucleus));
  return probabilities;
}

int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, uint64_t draw) {
  const std::vector<double> probabilities = token_probabilities(logits, options);
  double rest = RandomStream(random_key(options.seed, "generate"), 0).uniform(draw);
  size_t likeliest = 0;
  for (size_t token = 0; token < probabilities.size(); ++token) {
    if (probabilities[token] > 0 && (rest -= probabilities[token]) < 0)
      return static_cast<int32_t>(token);
    if (probabilities[token] > probabilities[likeliest]) likeliest = token;
  }
  // The sum of the rounded probabilities is below the random number.
  return static_cast<int32_t>(likeliest);
}

}  // namespace tessera
