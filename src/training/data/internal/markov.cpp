#include "training/data/internal/markov.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr double kMinWeight = 0.01;

Matrix drawn_transitions(int64_t states, uint64_t seed) {
  if (states < 2)
    throw UserError(fmt::format("a Markov chain of {} states is no text", states),
                    "it goes from token to token, of which there are two at least",
                    "set data.states to 2 or more", ExitCode::kBadConfig);
  const RandomStream stream(random_key(seed, "markov.transitions"), 0);
  Matrix rows(states, std::vector<double>(states));
  uint64_t index = 0;
  for (std::vector<double>& row : rows) {
    double sum = 0;
    for (double& weight : row)
      sum += weight = std::pow(static_cast<double>(stream.uniform(index++)), 4) + kMinWeight;
    for (double& weight : row) weight /= sum;
  }
  return rows;
}

std::vector<double> times(const std::vector<double>& row, const Matrix& matrix) {
  std::vector<double> result(row.size(), 0.0);
  for (size_t a = 0; a < row.size(); ++a)
    for (size_t b = 0; b < row.size(); ++b) result[b] += row[a] * matrix[a][b];
  return result;
}

/// Iterates from the uniform distribution. Each step reduces the distance by a factor below 1 when
/// no transition is impossible.
std::vector<double> stationary_of(const Matrix& transitions) {
  std::vector<double> now(transitions.size(), 1.0 / static_cast<double>(transitions.size()));
  for (int step = 0; step < 100'000; ++step) {
    std::vector<double> next = times(now, transitions);
    double change = 0;
    for (size_t a = 0; a < now.size(); ++a) change = std::max(change, std::abs(next[a] - now[a]));
    now = std::move(next);
    if (change < 1e-15) break;
  }
  return now;
}

/// -sum_a weights_a sum_b P_ab log P_ab.
double conditional_entropy(const std::vector<double>& weights, const Matrix& matrix) {
  double sum = 0;
  for (size_t a = 0; a < weights.size(); ++a)
    for (double p : matrix[a])
      if (p > 0) sum -= weights[a] * p * std::log(p);
  return sum;
}

int32_t drawn(const std::vector<double>& probabilities, double u) {
  double sum = 0;
  for (size_t token = 0; token + 1 < probabilities.size(); ++token)
    if (u < (sum += probabilities[token])) return static_cast<int32_t>(token);
  return static_cast<int32_t>(probabilities.size()) - 1;
}

}  // namespace

MarkovChain::MarkovChain(int64_t states, uint64_t seed)
    : MarkovChain(drawn_transitions(states, seed)) {}

MarkovChain::MarkovChain(Matrix transitions)
    : transitions_(std::move(transitions)), stationary_(stationary_of(transitions_)) {}

double MarkovChain::entropy_rate() const {
  return conditional_entropy(stationary_, transitions_);
}

double MarkovChain::masked_entropy() const {
  Matrix two_steps;
  for (const std::vector<double>& row : transitions_) two_steps.push_back(times(row, transitions_));
  return 2 * entropy_rate() - conditional_entropy(stationary_, two_steps);
}

int32_t MarkovChain::start(double u) const {
  return drawn(stationary_, u);
}

int32_t MarkovChain::next(int32_t last, double u) const {
  return drawn(transitions_[last], u);
}

MarkovDataset::MarkovDataset(MarkovChain chain, int64_t context, int64_t samples, uint64_t seed)
    : Dataset(token_fields(context)), chain_(std::move(chain)), samples_(samples), seed_(seed) {
  ensure(context >= 1 && samples >= 1, "samples of tokens");
}

uint64_t MarkovDataset::fingerprint() const {
  // The entropy rate identifies the chain.
  return stable_hash(fmt::format("markov {} {} {} {} {}", chain_.states(),
                                 double_text(chain_.entropy_rate()), fields().front().type.shape[0],
                                 samples_, seed_));
}

void MarkovDataset::write(int64_t sample, int64_t row, Batch& batch) const {
  const RandomStream stream(random_key(seed_, "markov.samples"), sample);
  const auto tokens = batch.row<int32_t>("tokens", row), labels = batch.row<int32_t>(kLabels, row);
  tokens[0] = chain_.start(stream.uniform(0));
  for (size_t place = 0; place < labels.size(); ++place) {
    labels[place] = chain_.next(tokens[place], stream.uniform(place + 1));
    if (place + 1 < tokens.size()) tokens[place + 1] = labels[place];
  }
}

MaskedTokens::MaskedTokens(DatasetPtr whole, int64_t block, int32_t mask, uint64_t seed)
    : Dataset(whole->fields()), whole_(std::move(whole)), block_(block), mask_(mask), seed_(seed) {
  ensure(block >= 3, "a block has places between its ends");
  const int64_t context = fields().front().type.shape[0];
  if (context >= block) return;
  throw UserError(fmt::format("nothing can be masked in a context of {} tokens by blocks of {}",
                              context, block),
                  "one token of each whole block is masked",
                  "make model.context longer, or data.mask_block smaller", ExitCode::kBadConfig);
}

uint64_t MaskedTokens::fingerprint() const {
  return stable_hash(fmt::format("masked {} {} {}", block_, mask_, seed_), whole_->fingerprint());
}

void MaskedTokens::write(int64_t sample, int64_t row, Batch& batch) const {
  whole_->write(sample, row, batch);
  const RandomStream stream(random_key(seed_, "masks"), sample);
  const auto tokens = batch.row<int32_t>("tokens", row), labels = batch.row<int32_t>(kLabels, row);
  std::ranges::fill(labels, -1);
  const int64_t blocks = std::ssize(tokens) / block_;
  for (int64_t i = 0; i < blocks; ++i) {
    const auto inside = static_cast<int64_t>(stream.uniform(i) * static_cast<float>(block_ - 2));
    const int64_t position = i * block_ + 1 + std::min(inside, block_ - 3);
    labels[position] = tokens[position];
    tokens[position] = mask_;
  }
}

}  // namespace tessera
