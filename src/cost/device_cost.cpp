#include "cost/device_cost.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera {
namespace {

double seconds_of(double amount, double rate) {
  return amount / rate;
}

}  // namespace

double SizeCurve::at(double size) const {
  ensure(!empty(), "a curve has points");
  const auto above =
      std::find_if(points.begin(), points.end(), [&](Point point) { return point.size >= size; });
  if (above == points.begin()) return above->value;
  if (above == points.end()) return points.back().value;
  const Point a = *(above - 1), b = *above;
  const double part = std::log(size / a.size) / std::log(b.size / a.size);
  return a.value * std::pow(b.value / a.value, part);
}

double SizeCurve::largest() const {
  double value = 0;
  for (Point point : points) value = std::max(value, point.value);
  return value;
}

const ClassRates* DeviceCost::rates_of(OperationClass operation) const {
  const auto found = classes.find(operation);
  return found == classes.end() ? nullptr : &found->second;
}

double DeviceCost::flops_rate(OperationClass operation, DType dtype) const {
  const ClassRates* rates = rates_of(operation);
  if (!rates) return flops_per_second;
  const auto of_type = rates->flops_per_second_of.find(dtype);
  if (of_type != rates->flops_per_second_of.end()) return of_type->second;
  return rates->flops_per_second.value_or(flops_per_second);
}

double DeviceCost::memory_rate(OperationClass operation) const {
  const ClassRates* rates = rates_of(operation);
  return rates ? rates->bytes_per_second.value_or(bytes_per_second) : bytes_per_second;
}

Price compute_price(const LocalWork& work, const DeviceCost& device) {
  const double flops = work.flops.value(), bytes = static_cast<double>(work.bytes().value());
  double flops_rate = device.flops_rate(work.operation, work.dtype);
  double memory_rate = device.memory_rate(work.operation);
  double best_flops_rate = flops_rate, best_memory_rate = memory_rate;
  Seconds launch = device.launch;
  if (const ClassRates* rates = device.rates_of(work.operation)) {
    launch = rates->launch.value_or(launch);
    if (!rates->efficiency.empty()) {
      best_flops_rate *= rates->efficiency.largest();
      flops_rate *= rates->efficiency.at(flops);
    }
    if (!rates->bytes_per_second_at.empty()) {
      best_memory_rate = rates->bytes_per_second_at.largest();
      memory_rate = rates->bytes_per_second_at.at(bytes);
    }
  }
  const Seconds busy(std::max(seconds_of(flops, flops_rate), seconds_of(bytes, memory_rate)));
  const Seconds floor(
      std::max(seconds_of(flops, best_flops_rate), seconds_of(bytes, best_memory_rate)));
  return {launch + busy, floor};
}

Price copy_price(Bytes moved, int64_t kernels, const DeviceCost& device) {
  const Seconds busy(
      seconds_of(static_cast<double>(moved.value()), device.copied_bytes_per_second));
  return {Seconds(static_cast<double>(kernels) * device.launch.value()) + busy, busy};
}

}  // namespace tessera
