// The comparison of elements with those of the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/largest.h"
#include "base/tensor/element.h"

namespace tessera {

/// Compares elements with those of a serial tensor.
class ElementComparison {
 public:
  /// `serial` outlives it. With tolerance 0 an element of f32 is the serial one rounded to f32;
  /// those of f16 and bf16 are rounded already.
  ElementComparison(const std::vector<double>& serial, double tolerance, DType dtype)
      : serial_(serial),
        tolerance_(tolerance),
        is_rounded_(tolerance == 0 && dtype == DType::kF32) {}

  double tolerance() const { return tolerance_; }
  double serial(size_t at) const {
    return is_rounded_ ? static_cast<double>(static_cast<float>(serial_[at])) : serial_[at];
  }
  /// The largest error so far, as a fraction of the tolerance.
  double max_error() const { return max_error_; }

  bool is_equal_enough(size_t at, double value) {
    if (value == serial(at)) return true;
    const double error = std::abs(value - serial(at));
    max_error_ = std::max(
        max_error_, tolerance_ > 0 ? error / tolerance_ : std::numeric_limits<double>::infinity());
    return tolerance_ > 0 && error <= tolerance_;
  }

  /// The first element that is held and not equal enough; the number of values if there is none.
  ///   held  by element; empty: all are held
  size_t first_different(const std::vector<double>& values, const std::vector<bool>& held) {
    for (size_t begin = 0; begin < values.size(); begin += kBlock) {
      const size_t count = std::min(kBlock, values.size() - begin);
      if (held.empty() && are_equal_enough(begin, count, values.data() + begin)) continue;
      for (size_t i = begin; i < begin + count; ++i)
        if ((held.empty() || held[i]) && !is_equal_enough(i, values[i])) return i;
    }
    return values.size();
  }

 private:
  static constexpr size_t kBlock = 256;

  /// The same for neighbouring elements without a branch, so that the compiler makes vectors of it.
  /// The largest error counts only if all are equal enough: it is that up to the first difference.
  bool are_equal_enough(size_t begin, size_t count, const double* values) {
    bool are_equal = true;
    const double largest = largest_of(count, 0, [&](size_t i) {
      const double wanted = serial(begin + i);
      const double error = values[i] == wanted ? 0 : std::abs(values[i] - wanted);
      are_equal &= error <= tolerance_;
      return error;
    });
    if (are_equal && tolerance_ > 0) max_error_ = std::max(max_error_, largest / tolerance_);
    return are_equal;
  }

  const std::vector<double>& serial_;
  double tolerance_;
  bool is_rounded_;
  double max_error_ = 0;
};

}  // namespace tessera
