#include "training/engine/internal/metrics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

namespace tessera {
namespace {

void add_to(std::vector<double>& sums, std::span<const float> values) {
  sums.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sums[i] += static_cast<double>(values[i]);
}

}  // namespace

std::optional<double> Evaluation::metric(std::string_view name) const {
  const auto found = std::ranges::find(metrics, name, &MetricValue::name);
  return found == metrics.end() ? std::nullopt : found->value;
}

double perplexity(const Evaluation& evaluation) {
  return std::exp(evaluation.loss);
}

double bits_per_byte(const Evaluation& evaluation) {
  if (evaluation.bytes == 0) return 0;
  return evaluation.loss * static_cast<double>(evaluation.tokens) /
         (std::numbers::ln2 * static_cast<double>(evaluation.bytes));
}

std::vector<MetricValue> numbers_of(const Evaluation& evaluation, const Network& network) {
  std::vector<MetricValue> numbers{{"loss", "", evaluation.loss}};
  if (network.loss_is_entropy) numbers.push_back({"perplexity", "", perplexity(evaluation)});
  for (const Metric& metric : network.metrics)
    numbers.push_back({metric.name, metric.unit, evaluation.metric(metric.name)});
  if (network.loss_is_entropy)
    numbers.push_back(
        {"bits_per_byte", "",
         evaluation.bytes > 0 ? std::optional(bits_per_byte(evaluation)) : std::nullopt});
  return numbers;
}

void MetricSums::add(const TensorMap& results, int64_t rows) {
  add_to(sums_, results.at(metric_.sum).values<float>());
  if (!metric_.count.empty()) return add_to(counts_, results.at(metric_.count).values<float>());
  counts_.resize(1);
  counts_[0] += static_cast<double>(rows);
}

MetricValue MetricSums::value() const {
  double sum = 0;
  int elements = 0;
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (counts_[i] == 0) continue;
    sum += sums_[i] / counts_[i];
    ++elements;
  }
  return {metric_.name, metric_.unit, elements > 0 ? std::optional(sum / elements) : std::nullopt};
}

int64_t predicted_positions(const LanguageModel& model) {
  return model.next_token(model.context).row + 1;
}

}  // namespace tessera
