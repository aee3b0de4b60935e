// The times of kernels on this machine, and the rates that follow from them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cluster/cost/device_cost.h"
#include "tools/measure/internal/kernel_grid.h"

namespace tessera {

/// The least time of one run on one core, in which its operands are in the caches that are large
/// enough for them. The time of the thread counts, so that other jobs disturb little.
///
///   throws  InternalError as bind_kernel
Seconds time_of(const LocalCall& call, Seconds budget = Seconds(0.01));

/// The least of several times of the same work. Those below a quarter of their mean do not count:
/// on virtual machines the clock of a thread stands still or jumps now and then.
///
///   requires  at least one sample, a sum above 0
///   ensures   above 0
Seconds min_sample(std::span<const Seconds> samples);

/// A kernel of the grid and its time.
struct TimedPoint {
  GridPoint point;
  Seconds time{0};
};

/// The rates of a device that reproduce the times: by kernel and by class the launch, which is the
/// time of its smallest call; the arithmetic rate of its fastest call and the efficiency by the
/// operations of a piece; and the memory rate by the bytes of a piece, each the geometric mean over
/// the calls of one size. Calls whose time is mostly launch tell of no rate. The rates without a
/// class are those of element-wise kernels at their largest size.
///
/// A kernel whose calls all have rows (RowWork) has the efficiency by the operations of a row, and
/// the rate of its copies, with which the prices of its calls are nearest to their times.
///
///   requires  times of at least two sizes of every class
DeviceCost rates_of(std::span<const TimedPoint> times);

/// Measures the grid, in several rounds, so that other jobs do not take the whole time of a point.
/// Points that disagree with their neighbours are measured again: where a call with more work of
/// the same kernel took less time. It takes about four seconds.
///   progress  is called before each kernel with the part that is done, from 0 to 1; may be empty
std::vector<TimedPoint> measure_kernels(const std::function<void(double)>& progress = {});

/// The indices of the points that took more time than a point of the same kernel with at least as
/// much work of every kind.
std::vector<size_t> disagreeing(std::span<const TimedPoint> times);

/// The rate of copies of blocks of a megabyte, in bytes per second that are read (as many are
/// written).
double copy_rate();

}  // namespace tessera
