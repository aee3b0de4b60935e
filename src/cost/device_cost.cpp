#include "cost/device_cost.h"

#include <algorithm>

namespace tessera {

double DeviceCost::flops_rate(OperationClass operation, DType dtype) const {
  const auto found = classes.find(operation);
  if (found == classes.end()) return flops_per_second;
  const ClassRates& rates = found->second;
  const auto of_dtype = rates.flops_per_second_of.find(dtype);
  if (of_dtype != rates.flops_per_second_of.end()) return of_dtype->second;
  return rates.flops_per_second.value_or(flops_per_second);
}

double DeviceCost::memory_rate(OperationClass operation) const {
  const auto found = classes.find(operation);
  return found == classes.end() ? bytes_per_second
                                : found->second.bytes_per_second.value_or(bytes_per_second);
}

Price compute_price(const LocalWork& work, const DeviceCost& device) {
  const double arithmetic = work.flops.value() / device.flops_rate(work.operation, work.dtype);
  const double memory =
      static_cast<double>(work.bytes().value()) / device.memory_rate(work.operation);
  const Seconds busy(std::max(arithmetic, memory));
  return {busy + device.launch, busy};
}

Price copy_price(Bytes moved, int64_t kernels, const DeviceCost& device) {
  const Seconds busy(static_cast<double>(moved.value()) / device.copied_bytes_per_second);
  const Seconds launches(static_cast<double>(kernels) * device.launch.value());
  return {busy + launches, busy};
}

}  // namespace tessera
