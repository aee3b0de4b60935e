#include "measure/kernel_times.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/tensor.h"
#include "kernels/bind.h"

namespace tessera {
namespace {

Seconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return Seconds(static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
}

/// The least time of a run of `work`, which is repeated for `budget`.
template <typename Work>
Seconds least_time(const Work& work, Seconds budget) {
  work();
  Seconds best(std::numeric_limits<double>::infinity());
  const Seconds end = thread_time() + budget;
  for (Seconds now = thread_time(); now < end;) {
    work();
    const Seconds after = thread_time();
    best = std::min(best, after - now);
    now = after;
  }
  return best;
}

/// Operands of a call: numbers of the size of activations, and indices that are valid.
class Operands {
 public:
  explicit Operands(const LocalCall& call) {
    for (const TensorType& type : call.inputs) {
      Tensor& tensor = inputs_.emplace_back(type);
      if (type.dtype == DType::kF32) {
        float value = -1;
        for (float& x : tensor.values<float>()) x = value = value > 1 ? -1 : value + 0.0137f;
      } else {
        std::memset(tensor.data(), 0, static_cast<size_t>(byte_size(type).value()));
      }
    }
    for (const TensorType& type : call.outputs) outputs_.emplace_back(type);
    for (Tensor& tensor : inputs_) in_.push_back(tensor.data());
    for (Tensor& tensor : outputs_) out_.push_back(tensor.data());
  }
  KernelBuffers buffers(std::byte* workspace) const { return {in_, out_, workspace}; }

 private:
  std::vector<Tensor> inputs_, outputs_;
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;
};

TensorType f32(const Shape& shape) {
  return {DType::kF32, shape};
}

void add_products(std::vector<GridPoint>& grid) {
  for (int64_t n : {4, 16, 32, 64, 128, 256, 512, 1024})
    grid.push_back(
        {{"dot_general", {}, {}, "mk,kn->mn", {f32({n, n}), f32({n, n})}, {f32({n, n})}}, true});
  const auto add_convolution = [&](int64_t batch, int64_t n) {
    const std::vector<int64_t> window{3, 1, 1, 1, n, 0, 0, 3, 1, 1, 1, n, 0, 0};
    const TensorType image = f32({batch, n, n, n});
    grid.push_back({{"convolution", window, {}, "", {image, f32({n, n, 3, 3})}, {image}}, true});
  };
  const auto add_attention = [&](int64_t batch, int64_t n, int64_t heads, int64_t depth) {
    const TensorType qkv = f32({batch, n, heads, depth}), lse = f32({batch, heads, n});
    grid.push_back({{"attention", {1, 0}, {0.2}, "", {qkv, qkv, qkv}, {qkv, lse}}, true});
    grid.push_back(
        {{"attention_grad", {1, 0}, {0.2}, "", {qkv, qkv, qkv, qkv, lse, qkv}, {qkv, qkv, qkv}},
         true});
  };
  // The smallest kernels tell the launch.
  add_convolution(1, 1);
  for (int64_t n : {4, 8, 16, 32, 64}) add_convolution(8, n);
  add_attention(1, 1, 1, 8);
  for (int64_t n : {4, 16, 64, 128, 256}) add_attention(4, n, 4, 32);
}

/// Rows of 64 elements: the number of elements is a power of 4 of them.
void add_memory_bound(std::vector<GridPoint>& grid) {
  for (int64_t rows = 1; rows <= 1 << 16; rows *= 4) {
    const int64_t columns = 64, count = rows * columns;
    const TensorType vector = f32({count}), matrix = f32({rows, columns});
    for (const char* kernel : {"binary.add", "binary.mul", "binary.sub"})
      grid.push_back({{kernel, {}, {}, "", {vector, vector}, {vector}}, false});
    grid.push_back({{"scalar.mul", {}, {0.5}, "", {vector}, {vector}}, false});
    for (const char* kernel : {"unary.exp", "unary.tanh", "unary.logistic"})
      grid.push_back({{kernel, {}, {}, "", {vector}, {vector}}, true});
    for (int64_t dim : {0, 1})
      grid.push_back(
          {{"reduce.sum", {dim}, {}, "", {matrix}, {f32({dim == 0 ? columns : rows})}}, false});
    grid.push_back({{"reduce.max", {1}, {}, "", {matrix}, {f32({rows})}}, false});
    for (int64_t dim : {0, 1})
      grid.push_back(
          {{"broadcast", {dim}, {}, "", {f32({dim == 0 ? rows : columns})}, {matrix}}, false});
    grid.push_back({{"transpose", {1, 0}, {}, "", {matrix}, {f32({columns, rows})}}, false});
    grid.push_back({{"copy", {}, {}, "", {matrix}, {vector}}, false});
    const TensorType indices{DType::kI32, {rows}}, table = f32({256, columns});
    grid.push_back({{"gather", {0}, {}, "", {table, indices}, {matrix}}, false});
    grid.push_back({{"scatter_add", {0}, {}, "", {indices, matrix}, {table}}, false});
  }
}

double bytes_of(const LocalWork& work) {
  return static_cast<double>(work.bytes().value());
}

/// The rates of one class.
class ClassFit {
 public:
  void add(const TimedPoint& timed) {
    points_.push_back({work_of(timed.point.call), timed});
    launch_ = std::min(launch_, timed.time.value());
  }

  ClassRates rates() const {
    ensure(points_.size() >= 2, "a class is measured at several sizes");
    ClassRates rates;
    rates.launch = Seconds(launch_);
    SizeCurve flops, bytes;
    for (const auto& [work, timed] : points_) {
      const double busy = busy_time(timed);
      if (timed.point.is_arithmetic && work.flops.value() > 0)
        add_to(flops, work.flops.value(), work.flops.value() / busy);
      if (!timed.point.is_arithmetic) add_to(bytes, bytes_of(work), bytes_of(work) / busy);
    }
    if (!flops.empty()) {
      sort(flops);
      rates.flops_per_second = flops.largest();
      for (SizeCurve::Point& point : flops.points) point.value /= *rates.flops_per_second;
      rates.efficiency = flops;
    }
    sort(bytes);
    rates.bytes_per_second_at = bytes;
    if (!bytes.empty()) rates.bytes_per_second = bytes.points.back().value;
    return rates;
  }

 private:
  struct Point {
    LocalWork work;
    TimedPoint timed;
  };

  /// Without the launch; of the smallest kernels a part of it, so that they have a rate.
  double busy_time(const TimedPoint& timed) const {
    return std::max(timed.time.value() - launch_, 0.1 * timed.time.value());
  }
  static void add_to(SizeCurve& curve, double size, double value) {
    curve.points.push_back({size, value});
  }
  /// Sorts by size; points of about one size become one, with the geometric mean of their values.
  static void sort(SizeCurve& curve) {
    std::ranges::sort(curve.points, {}, &SizeCurve::Point::size);
    std::vector<SizeCurve::Point> result;
    for (size_t i = 0; i < curve.points.size();) {
      double size = 0, value = 0;
      size_t end = i;
      for (; end < curve.points.size() && curve.points[end].size < 2 * curve.points[i].size;
           ++end) {
        size += std::log(curve.points[end].size);
        value += std::log(curve.points[end].value);
      }
      const auto count = static_cast<double>(end - i);
      result.push_back({std::exp(size / count), std::exp(value / count)});
      i = end;
    }
    curve.points = std::move(result);
  }

  std::vector<Point> points_;
  double launch_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<GridPoint> kernel_grid() {
  std::vector<GridPoint> grid;
  add_products(grid);
  add_memory_bound(grid);
  return grid;
}

Seconds time_of(const LocalCall& call, Seconds budget) {
  const BoundKernel kernel = bind_kernel(call);
  const Operands operands(call);
  AlignedBuffer workspace(kernel.workspace);
  const KernelBuffers buffers = operands.buffers(workspace.data());
  return least_time([&] { kernel.run(buffers); }, budget);
}

std::vector<TimedPoint> measure_kernels(const std::function<void(double)>& progress) {
  use_one_thread_for_kernels();
  // Another job may take the whole time of a point, so each is measured in several rounds.
  constexpr int kRounds = 3;
  std::vector<TimedPoint> times;
  for (GridPoint& point : kernel_grid())
    times.push_back({std::move(point), Seconds(std::numeric_limits<double>::infinity())});
  const auto all = static_cast<double>(kRounds * times.size());
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < times.size(); ++i) {
      if (progress) progress(static_cast<double>(round * times.size() + i) / all);
      times[i].time = std::min(times[i].time, time_of(times[i].point.call, Seconds(0.004)));
    }
  return times;
}

DeviceCost rates_of(std::span<const TimedPoint> times) {
  std::map<OperationClass, ClassFit> fits;
  for (const TimedPoint& timed : times) fits[work_of(timed.point.call).operation].add(timed);
  DeviceCost cost;
  for (const auto& [operation, fit] : fits) cost.classes[operation] = fit.rates();
  const auto elementwise = cost.classes.find(OperationClass::kElementwise);
  ensure(elementwise != cost.classes.end(), "element-wise kernels are in the grid");
  const ClassRates& rates = elementwise->second;
  cost.launch = *rates.launch;
  cost.flops_per_second = rates.flops_per_second.value_or(cost.flops_per_second);
  cost.bytes_per_second = rates.bytes_per_second.value_or(cost.bytes_per_second);
  return cost;
}

double copy_rate() {
  constexpr int64_t kBlock = 1 << 20;
  AlignedBuffer from{Bytes(kBlock)}, to{Bytes(kBlock)};
  std::memset(from.data(), 1, kBlock);
  const Seconds time =
      least_time([&] { std::memcpy(to.data(), from.data(), kBlock); }, Seconds(0.02));
  return static_cast<double>(kBlock) / time.value();
}

}  // namespace tessera
