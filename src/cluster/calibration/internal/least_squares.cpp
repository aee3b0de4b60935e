#include "cluster/calibration/internal/least_squares.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

/// Solves a x = b by the decomposition of Cholesky.
///   requires  `a` is symmetric and positive definite
Vector solve(Matrix a, Vector b) {
  const size_t n = b.size();
  for (size_t j = 0; j < n; ++j) {
    for (size_t k = 0; k < j; ++k) a[j][j] -= a[j][k] * a[j][k];
    ensure(a[j][j] > 0, "the normal equations of a regularized fit are positive definite");
    a[j][j] = std::sqrt(a[j][j]);
    for (size_t i = j + 1; i < n; ++i) {
      for (size_t k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
    for (size_t k = 0; k < j; ++k) b[j] -= a[j][k] * b[k];
    b[j] /= a[j][j];
  }
  for (size_t j = n; j-- > 0;) {
    for (size_t i = j + 1; i < n; ++i) b[j] -= a[i][j] * b[i];
    b[j] /= a[j][j];
  }
  return b;
}

class Fit {
 public:
  Fit(const std::function<Vector(std::span<const double>)>& predict,
      std::span<const double> measured, const FactorFit& options)
      : predict_(predict), measured_(measured), options_(options) {}

  FactorPrior prior(size_t factor) const {
    if (options_.priors.empty()) return {options_.factor, 1 / options_.largest, options_.largest};
    return options_.priors.at(factor);
  }

  /// Logarithms of the factors.
  Vector run(size_t factors) const {
    Vector x(factors, 0);
    for (size_t j = 0; j < options_.begin.size(); ++j) x.at(j) = std::log(options_.begin[j]);
    Vector errors = errors_of(x);
    double sum = sum_of(x, errors);
    for (int i = 0; i < options_.iterations; ++i) {
      const Vector step = step_at(x, errors);
      bool is_lower = false;
      double before = sum;
      for (double share = 1; share > 0.05 && !is_lower; share /= 2) {
        Vector next = moved(x, step, share);
        Vector next_errors = errors_of(next);
        const double next_sum = sum_of(next, next_errors);
        is_lower = next_sum < sum;
        if (!is_lower) continue;
        x = std::move(next);
        errors = std::move(next_errors);
        sum = next_sum;
      }
      if (!is_lower || before - sum < 1e-6 * before) break;
    }
    return x;
  }

 private:
  Vector errors_of(const Vector& x) const {
    Vector factors;
    for (double each : x) factors.push_back(std::exp(each));
    Vector errors = predict_(factors);
    ensure(errors.size() == measured_.size(), "each measurement has a prediction");
    for (size_t i = 0; i < errors.size(); ++i)
      errors[i] = std::log(errors[i] / measured_[i]) / options_.measurement;
    return errors;
  }

  double sum_of(const Vector& x, const Vector& errors) const {
    double sum = 0;
    for (double error : errors) {
      const double size = std::abs(error), limit = options_.outlier;
      sum += size <= limit ? error * error : limit * (2 * size - limit);
    }
    for (size_t j = 0; j < x.size(); ++j) sum += x[j] * x[j] * weight(j);
    return sum;
  }

  double weight(size_t factor) const {
    const double deviation = prior(factor).deviation;
    return 1 / (deviation * deviation);
  }
  double lowest(size_t factor) const { return std::log(prior(factor).smallest); }
  double highest(size_t factor) const { return std::log(prior(factor).largest); }

  Vector moved(const Vector& x, const Vector& step, double share) const {
    Vector next;
    for (size_t j = 0; j < x.size(); ++j)
      next.push_back(std::clamp(x[j] + share * step[j], lowest(j), highest(j)));
    return next;
  }

  /// The step of Gauss and Newton. A factor at its bound that would leave it stays.
  Vector step_at(const Vector& x, const Vector& errors) const {
    constexpr double kDifference = 0.02;
    Matrix slopes;  // by factor and measurement
    for (size_t j = 0; j < x.size(); ++j) {
      Vector other = x;
      other[j] += kDifference;
      slopes.push_back(errors_of(other));
      for (size_t i = 0; i < errors.size(); ++i)
        slopes[j][i] = (slopes[j][i] - errors[i]) / kDifference;
    }
    // Outliers weigh less the farther they are off.
    Vector weights;
    for (const double error : errors)
      weights.push_back(std::min(1.0, options_.outlier / std::max(std::abs(error), 1e-12)));
    Matrix normal(x.size(), Vector(x.size(), 0));
    Vector down(x.size(), 0);
    for (size_t j = 0; j < x.size(); ++j) {
      for (size_t i = 0; i < errors.size(); ++i) down[j] -= weights[i] * slopes[j][i] * errors[i];
      down[j] -= weight(j) * x[j];
      for (size_t k = 0; k < x.size(); ++k)
        for (size_t i = 0; i < errors.size(); ++i)
          normal[j][k] += weights[i] * slopes[j][i] * slopes[k][i];
      normal[j][j] += weight(j);
    }
    for (size_t j = 0; j < x.size(); ++j) {
      const bool leaves = (x[j] >= highest(j) && down[j] > 0) || (x[j] <= lowest(j) && down[j] < 0);
      if (!leaves) continue;
      for (size_t k = 0; k < x.size(); ++k) normal[j][k] = normal[k][j] = j == k ? 1 : 0;
      down[j] = 0;
    }
    return solve(std::move(normal), std::move(down));
  }

  const std::function<Vector(std::span<const double>)>& predict_;
  const std::span<const double> measured_;
  const FactorFit options_;
};

}  // namespace

std::vector<double> fit_factors(
    const std::function<std::vector<double>(std::span<const double>)>& predict,
    std::span<const double> measured, size_t factors, const FactorFit& fit) {
  Vector x = Fit(predict, measured, fit).run(factors);
  for (double& each : x) each = std::exp(each);
  return x;
}

}  // namespace tessera
