// The times of kernels on this machine, and the rates that follow from them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cost/device_cost.h"
#include "kernels/kernel.h"

namespace tessera {

/// A kernel of the grid: a class of operations at a size.
struct GridPoint {
  LocalCall call;
  /// Is it bound by arithmetic? Then it tells of the arithmetic rate of its class, else of the
  /// memory rate at its bytes.
  bool is_arithmetic = false;
};

/// Kernels of all classes, each at sizes from a few bytes to more than the caches hold. It is the
/// same for every model; no configuration has a part in it.
std::vector<GridPoint> kernel_grid();

/// The least time of one run on one core, in which its operands are in the caches that are large
/// enough for them. The time of the thread counts, so that other jobs disturb little.
///
///   throws  InternalError as bind_kernel
Seconds time_of(const LocalCall& call, Seconds budget = Seconds(0.01));

/// A kernel of the grid and its time.
struct TimedPoint {
  GridPoint point;
  Seconds time{0};
};

/// The rates of a device that reproduce the times: by class the launch, which is the time of its
/// smallest kernels; the arithmetic rate of its fastest kernel and the efficiency by operations;
/// and the memory rate by bytes, the geometric mean over the kernels of one size. The rates without
/// a class are those of element-wise kernels at their largest size.
///
///   requires  times of at least two sizes of every class
DeviceCost rates_of(std::span<const TimedPoint> times);

/// Measures the grid. It takes about two seconds.
///   progress  is called before each kernel with the part that is done, from 0 to 1; may be empty
std::vector<TimedPoint> measure_kernels(const std::function<void(double)>& progress = {});

/// The rate of copies of blocks of a megabyte, in bytes per second that are read (as many are
/// written).
double copy_rate();

}  // namespace tessera
