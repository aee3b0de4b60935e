// The speed of one device: what its kernels and its copies cost.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cost/internal/price.h"
#include "kernels/work.h"

namespace tessera {

/// A function of a size, by some of its points: linear in the logarithms of size and value between
/// two of them, constant below the first and above the last.
struct SizeCurve {
  struct Point {
    double size = 0, value = 0;  // above 0
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> points = {};  // ascending sizes

  ///   requires  not empty()
  double at(double size) const;
  double largest() const;
  bool empty() const { return points.empty(); }
  bool operator==(const SizeCurve&) const = default;
};

/// Rates of one kernel, or of the kernels of one class of operations. What a kernel does not give
/// is as for its class, and what a class does not give is as for the device.
struct ClassRates {
  std::optional<double> flops_per_second = std::nullopt;
  std::optional<double> bytes_per_second = std::nullopt;
  std::map<DType, double> flops_per_second_of = {};  // by the element type of the arithmetic
  std::optional<Seconds> launch = std::nullopt;
  /// The part of the arithmetic rates that a piece of n operations reaches; empty: all.
  SizeCurve efficiency = {};
  /// Bytes per second of a kernel whose pieces read and write n bytes, instead of
  /// bytes_per_second: short pieces take time beside their bytes, small operands are in caches.
  SizeCurve bytes_per_second_at = {};
  /// Instead of `efficiency`, of a kernel with rows (RowWork): the part of the arithmetic rates
  /// that it reaches whose rows have n operations.
  SizeCurve row_efficiency = {};
  /// Of its operands that such a kernel copies into layouts of its own, before and after its
  /// arithmetic. It contains the memory traffic of the kernel.
  std::optional<double> copied_bytes_per_second = std::nullopt;
  /// Of a product of matrices: the smallest extent (LocalWork::smallest_extent) with which it
  /// reaches half of its rate; one of n reaches n / (n + half_extent). 0: all reach it.
  double half_extent = 0;
  /// The time beside the launch is multiplied by it: that of a kernel and that of its class, if
  /// both have one. It corrects measured rates (cluster/calibration/calibrate.h).
  double time_factor = 1;

  bool operator==(const ClassRates&) const = default;
};

/// The default is one core of a common machine, which is what a rank has.
struct DeviceCost {
  double flops_per_second = 2e10;
  double bytes_per_second = 5e9;  // of memory that kernels read and write
  /// Of whole blocks that are copied in its memory: chunks of tensors and what an exchange
  /// received.
  double copied_bytes_per_second = 1e10;
  /// Between its memory and a file of its machine, in each direction.
  double file_bytes_per_second = 2e9;
  Seconds launch{2e-6};  // that each kernel takes beside its work
  /// Multiplies every launch: this one, and those of classes and kernels.
  double launch_factor = 1;
  /// The part of the time of a kernel with is_fusible(operation) that it takes where the runtime
  /// joins it with its neighbours. It is an estimate, by which searches compare; a simulation knows
  /// the joined kernels.
  double fused = 1;
  std::map<OperationClass, ClassRates> classes = {};
  std::map<std::string, ClassRates, std::less<>> kernels = {};  // by LocalWork::kernel

  /// The most specific rate: of the class and the element type, of the class, of the device.
  double flops_rate(OperationClass operation, DType dtype) const;
  double memory_rate(OperationClass operation) const;
  /// nullptr: only the rates of the device.
  const ClassRates* rates_of(OperationClass operation) const;
  const ClassRates* rates_of(std::string_view kernel) const;
  bool operator==(const DeviceCost&) const = default;
};

/// May a runtime compute it in one kernel with its neighbours? So it is of element-wise operations,
/// reductions and moves.
bool is_fusible(OperationClass operation);

/// Flop/s by the element type of the products.
using PeakRates = std::map<DType, double>;

/// Time of one kernel: arithmetic and memory traffic overlap.
///
///     estimate = launch + max(flops / (efficiency flops rate), bytes / memory rate)
///                + the time in which kColdShare of the bytes come from farther away
///     floor    = the longer of both, with the largest efficiency and memory rate
///     A kernel with rates by rows has executed / (row efficiency * flops rate) + copied / copy
///     rate instead of the maximum. What is beside the launch is multiplied by the time factors of
///     the class and the kernel, all of it by DeviceCost::fused where it is_fusible().
///
///   working_set  the bytes that the kernels of a step use in turn. Part of the operands of a
///                kernel have left the caches since they were used: they are read at the memory
///                rate of n bytes instead of that of the kernel's own. 0: all are in the caches
///   source       the roofline model: Williams, Waterman and Patterson, Comm. ACM 52(4), 2009
Price compute_price(const LocalWork& work, const DeviceCost& device, Bytes working_set = Bytes(0));

/// The part of the operands of a kernel that are not in the caches where the working set is larger
/// than these: between a kernel whose inputs the previous one made and one that reads parameters.
extern const double kColdShare;

/// Time of copies of whole blocks in the memory of a device.
///
///   moved    bytes that are read, and bytes that are written
///   kernels  that make the copies; each takes a launch
Price copy_price(Bytes moved, int64_t kernels, const DeviceCost& device);

/// Time of a copy between the memory of a device and a file.
Price file_copy_price(Bytes moved, const DeviceCost& device);

}  // namespace tessera
