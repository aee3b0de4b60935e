// The losses of a run, and whether a new one is like them.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// The last losses that were like those before them. A loss is far outside when it exceeds their
/// median by more than ten spreads, and by more than their median magnitude:
///
///     loss > median + max(10 * spread, median |loss|)
///
/// The spread is 1.4826 times the median distance from the median, which is the standard deviation
/// of normally distributed losses. So a loss must more than double to be far outside, and noise
/// that is as large as the losses makes none so. Losses that are far outside do not enter: a run
/// whose losses stay there stays suspect.
///
///   source  Leys et al. 2013, "Detecting outliers: do not use standard deviation around the mean,
///           use absolute deviation around the median"
class LossHistory {
 public:
  static constexpr int64_t kLength = 100;

  /// Is the loss like those before it? The first one is. Then it enters.
  ///   time  O(kLength)
  bool add(double loss);
  double median() const;  // NaN before the first loss
  double spread() const;

 private:
  std::vector<double> losses_;  // at most kLength, the oldest is replaced
  int64_t next_ = 0;
};

}  // namespace tessera
