#include "cluster/cost/device_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

const ClassRates* DeviceCost::rates_of(std::string_view kernel) const {
  const auto found = kernels.find(kernel);
  return found == kernels.end() ? nullptr : &found->second;
}

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// The rates of one kernel.
struct Rates {
  double flops = 0, best_flops = 0;
  double memory = 0, best_memory = 0;
  Seconds launch{0};
  double operations = 0;  // that take place at these rates
  double copies = kUnlimited;
  double time_factor = 1;

  Rates(const LocalWork& work, const DeviceCost& device)
      : flops(device.flops_per_second),
        best_flops(flops),
        memory(device.bytes_per_second),
        best_memory(memory),
        launch(device.launch),
        operations(work.flops.value()) {
    if (const ClassRates* of_class = device.rates_of(work.operation)) take(*of_class, work);
    if (const ClassRates* of_kernel = device.rates_of(work.kernel)) {
      if (!of_kernel->bytes_per_second_at.empty() && of_kernel->efficiency.empty())
        has_no_arithmetic();
      take(*of_kernel, work);
    }
  }

  /// Measured memory rates of a kernel contain its arithmetic.
  void has_no_arithmetic() { flops = best_flops = kUnlimited; }

  void take(const ClassRates& rates, const LocalWork& work) {
    const double pieces = std::max(work.pieces, 1.0);
    const auto of_type = rates.flops_per_second_of.find(work.dtype);
    if (of_type != rates.flops_per_second_of.end())
      flops = best_flops = of_type->second;
    else if (rates.flops_per_second)
      flops = best_flops = *rates.flops_per_second;
    if (!rates.efficiency.empty()) {
      best_flops = flops * rates.efficiency.largest();
      flops *= rates.efficiency.at(work.flops.value() / pieces);
    }
    if (rates.half_extent > 0 && work.smallest_extent > 0)
      flops *= work.smallest_extent / (work.smallest_extent + rates.half_extent);
    if (rates.bytes_per_second) memory = best_memory = *rates.bytes_per_second;
    if (!rates.bytes_per_second_at.empty()) {
      best_memory = rates.bytes_per_second_at.largest();
      memory = rates.bytes_per_second_at.at(static_cast<double>(work.bytes().value()) / pieces);
    }
    if (work.rows) take_rows(rates, *work.rows);
    launch = rates.launch.value_or(launch);
    time_factor *= rates.time_factor;
  }

  void take_rows(const ClassRates& rates, const RowWork& rows) {
    if (!rates.row_efficiency.empty()) {
      operations = rows.executed.value();
      best_flops = flops * rates.row_efficiency.largest();
      flops *= rates.row_efficiency.at(rows.row.value());
    }
    if (rates.copied_bytes_per_second) {
      copies = *rates.copied_bytes_per_second;
      memory = best_memory = kUnlimited;
    }
  }
};

/// The further time of bytes that are not in the caches: by the rates of element-wise kernels,
/// which are measured up to sizes that no cache holds.
Seconds cold_time(double bytes, Bytes working_set, const DeviceCost& device) {
  const ClassRates* elementwise = device.rates_of(OperationClass::kElementwise);
  if (!elementwise || elementwise->bytes_per_second_at.empty()) return Seconds(0);
  const SizeCurve& rate = elementwise->bytes_per_second_at;
  const double far = rate.at(std::max(bytes, static_cast<double>(working_set.value())));
  return Seconds(std::max(0.0, kColdShare * bytes * (1 / far - 1 / rate.at(bytes))));
}

}  // namespace

const double kColdShare = 0.3;

bool is_fusible(OperationClass operation) {
  switch (operation) {
    case OperationClass::kElementwise:
    case OperationClass::kReduction:
    case OperationClass::kMovement: return true;
    default: return false;
  }
}

Price compute_price(const LocalWork& work, const DeviceCost& device, Bytes working_set) {
  const auto bytes = static_cast<double>(work.bytes().value());
  const Rates rates(work, device);
  const double copied = work.rows ? static_cast<double>(work.rows->copied.value()) : 0;
  const double copies = seconds_of(copied, rates.copies);
  const auto busy = [&](double flops_rate, double memory_rate) {
    return copies +
           std::max(seconds_of(rates.operations, flops_rate), seconds_of(bytes, memory_rate));
  };
  const Seconds cold = working_set > Bytes(0) ? cold_time(bytes, working_set, device) : Seconds(0);
  const double factor = rates.time_factor;
  const double launch = device.launch_factor * rates.launch.value();
  const double share = is_fusible(work.operation) ? device.fused : 1;
  return {Seconds(share * (launch + factor * (busy(rates.flops, rates.memory) + cold.value()))),
          Seconds(share * factor * busy(rates.best_flops, rates.best_memory))};
}

Price copy_price(Bytes moved, int64_t kernels, const DeviceCost& device) {
  const Seconds busy(
      seconds_of(static_cast<double>(moved.value()), device.copied_bytes_per_second));
  const double launches = static_cast<double>(kernels) * device.launch_factor;
  return {Seconds(launches * device.launch.value()) + busy, busy};
}

Price file_copy_price(Bytes moved, const DeviceCost& device) {
  const Seconds busy(seconds_of(static_cast<double>(moved.value()), device.file_bytes_per_second));
  return {Seconds(device.launch_factor * device.launch.value()) + busy, busy};
}

}  // namespace tessera
