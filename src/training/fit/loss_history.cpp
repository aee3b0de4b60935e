#include "training/fit/loss_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr double kSpreads = 10;
constexpr double kNormal = 1.4826;  // of a normal distribution: deviation / median distance

double median_of(std::vector<double> numbers) {
  if (numbers.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = numbers.begin() + std::ssize(numbers) / 2;
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace

double LossHistory::median() const {
  return median_of(losses_);
}

double LossHistory::spread() const {
  std::vector<double> distances = losses_;
  for (double& loss : distances) loss = std::abs(loss - median());
  return kNormal * median_of(std::move(distances));
}

bool LossHistory::add(double loss) {
  if (!losses_.empty()) {
    std::vector<double> magnitudes = losses_;
    for (double& magnitude : magnitudes) magnitude = std::abs(magnitude);
    // A loss that is no number compares as far outside.
    if (!(loss <= median() + std::max(kSpreads * spread(), median_of(std::move(magnitudes)))))
      return false;
  }
  if (std::ssize(losses_) < kLength)
    losses_.push_back(loss);
  else
    losses_[next_] = loss;
  next_ = (next_ + 1) % kLength;
  return true;
}

}  // namespace tessera
