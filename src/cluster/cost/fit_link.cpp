#include "cluster/cost/fit_link.h"

#include <cmath>

#include "base/error.h"

namespace tessera {

LinkCost fit_link(std::span<const MeasuredTime> times) {
  // Weighted least squares of time = a + b bytes with the weights 1 / time^2.
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const MeasuredTime& measured : times) {
    const double t = measured.time.value(), x = static_cast<double>(measured.bytes.value());
    ensure(t > 0, "a measured time is above 0");
    const double weight = 1 / (t * t);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wt += weight * t;
    wxt += weight * x * t;
  }
  ensure(wxx > 0, "a message of some bytes was measured");
  const double determinant = w * wxx - wx * wx;
  double a = 0, b = wxt / wxx;
  if (determinant > 1e-12 * w * wxx) {
    const double latency = (wxx * wt - wx * wxt) / determinant;
    const double slope = (w * wxt - wx * wt) / determinant;
    // Noise may make small messages slower than large ones: then all of the time is per byte.
    if (latency > 0 && slope > 0) {
      a = latency;
      b = slope;
    }
  }
  ensure(b > 0, "larger messages take more time");
  return {Seconds(a), 1 / b};
}

double mean_relative_error(const LinkCost& link, std::span<const MeasuredTime> times) {
  double sum = 0;
  for (const MeasuredTime& measured : times)
    sum +=
        std::abs(message_price(measured.bytes, link).estimate.value() / measured.time.value() - 1);
  return times.empty() ? 0 : sum / static_cast<double>(times.size());
}

}  // namespace tessera
