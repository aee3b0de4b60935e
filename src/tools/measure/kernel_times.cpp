#include "tools/measure/kernel_times.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/tensor/tensor.h"
#include "kernels/bind.h"

namespace tessera {
namespace {

Seconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return Seconds(static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
}

/// The least time of a run of `work`, which is repeated for `budget`. Short runs are timed many at
/// once, since reading the clock of a thread takes longer than the shortest kernels.
template <typename Work>
Seconds min_time(const Work& work, Seconds budget) {
  constexpr Seconds kSample(2e-5);
  work();
  const auto time_of_runs = [&](int64_t runs) {
    const Seconds begin = thread_time();
    for (int64_t i = 0; i < runs; ++i) work();
    return thread_time() - begin;
  };
  int64_t runs = 1;
  Seconds used = time_of_runs(runs), sample = used;
  while (sample < kSample && runs < 1 << 12) {
    runs *= 2;
    sample = time_of_runs(runs);
    used += sample;
  }
  std::vector<Seconds> samples{sample};
  for (Seconds sum = sample; used < budget || sum <= Seconds(0);) {
    samples.push_back(time_of_runs(runs));
    used += samples.back();
    sum += samples.back();
  }
  return Seconds(min_sample(samples).value() / static_cast<double>(runs));
}

/// Operands of a call: numbers of the size of activations, and indices that are valid.
class Operands {
 public:
  explicit Operands(const LocalCall& call) {
    for (const TensorType& type : call.inputs) fill(inputs_.emplace_back(type));
    for (const TensorType& type : call.outputs) outputs_.emplace_back(type);
    for (Tensor& tensor : inputs_) in_.push_back(tensor.data());
    for (Tensor& tensor : outputs_) out_.push_back(tensor.data());
  }
  KernelBuffers buffers(std::byte* workspace) const { return {in_, out_, workspace}; }

 private:
  static void fill(Tensor& tensor) {
    if (tensor.type().dtype == DType::kF32) {
      const std::span<float> values = tensor.values<float>();
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = 0.05f + 0.0137f * static_cast<float>(i % 64);
    } else if (tensor.type().dtype == DType::kI32) {
      const std::span<int32_t> values = tensor.values<int32_t>();
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(37 * i % 251);
    } else {
      std::memset(tensor.data(), 0, static_cast<size_t>(byte_size(tensor.type()).value()));
    }
  }

  std::vector<Tensor> inputs_, outputs_;
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;
};

double bytes_of(const LocalWork& work) {
  return static_cast<double>(work.bytes().value());
}

/// The rates of one kernel or one class.
class RatesFit {
 public:
  void add(const TimedPoint& timed) {
    points_.push_back({work_of(timed.point.call), timed});
    launch_ = std::min(launch_, timed.time.value());
  }

  ClassRates rates() const {
    ClassRates rates;
    rates.launch = Seconds(launch_);
    SizeCurve flops, bytes;
    for (double min_part : {0.5, 0.0}) {  // of the time, which is work
      for (const Point& point : points_) add_to(flops, bytes, point, min_part);
      if (!flops.empty() || !bytes.empty()) break;
    }
    set_efficiency(rates, std::move(flops), rates.efficiency);
    rates.bytes_per_second_at = joined(std::move(bytes));
    if (!rates.bytes_per_second_at.empty())
      rates.bytes_per_second = rates.bytes_per_second_at.points.back().value;
    return rates;
  }

  /// Do all calls have rows?
  bool has_rows() const {
    return std::ranges::all_of(points_,
                               [](const Point& point) { return point.work.rows.has_value(); });
  }

  /// The rates by rows. Arithmetic and copies of a kernel are timed together; they are told apart
  /// by the rate of copies with which the prices of all calls are nearest to their times.
  ///   requires  has_rows()
  ClassRates rates_by_rows() const {
    ClassRates best = rates_by_rows(std::nullopt);
    double smallest = distance(best);
    for (double rate = 1e9; rate < 1e12; rate *= 1.1) {
      ClassRates rates = rates_by_rows(rate);
      const double found = distance(rates);
      if (found >= smallest) continue;
      smallest = found;
      best = std::move(rates);
    }
    return best;
  }

 private:
  struct Point {
    LocalWork work;
    TimedPoint timed;
  };

  ClassRates rates_by_rows(std::optional<double> copies) const {
    ClassRates rates;
    rates.launch = Seconds(launch_);
    rates.copied_bytes_per_second = copies;
    SizeCurve flops;
    for (double min_part : {0.3, 0.0}) {  // of the time, which is arithmetic
      for (const Point& point : points_) add_to(flops, point, copies, min_part);
      if (!flops.empty()) break;
    }
    set_efficiency(rates, std::move(flops), rates.row_efficiency);
    return rates;
  }

  void add_to(SizeCurve& flops, const Point& point, std::optional<double> copies,
              double min_part) const {
    const RowWork& rows = *point.work.rows;
    const double time = point.timed.time.value();
    const double copied = copies ? static_cast<double>(rows.copied.value()) / *copies : 0;
    const double busy = time - launch_ - copied;
    if (busy < min_part * time || rows.executed <= Flops(0)) return;
    flops.points.push_back({rows.row.value(), rows.executed.value() / std::max(busy, 0.1 * time)});
  }

  /// The mean of how far the prices at these rates are from the times, as a logarithm.
  double distance(const ClassRates& rates) const {
    DeviceCost device;
    double sum = 0;
    for (const auto& [work, timed] : points_) {
      device.kernels.try_emplace(std::string(work.kernel), rates);
      sum += std::abs(std::log(compute_price(work, device).estimate.value() / timed.time.value()));
    }
    return sum / static_cast<double>(points_.size());
  }

  /// Joins rates by size, and divides them into the largest one and its parts.
  static void set_efficiency(ClassRates& rates, SizeCurve flops, SizeCurve& efficiency) {
    if (flops.empty()) return;
    efficiency = joined(std::move(flops));
    rates.flops_per_second = efficiency.largest();
    for (SizeCurve::Point& point : efficiency.points) point.value /= *rates.flops_per_second;
  }

  void add_to(SizeCurve& flops, SizeCurve& bytes, const Point& point, double min_part) const {
    const auto& [work, timed] = point;
    const double time = timed.time.value(), pieces = std::max(work.pieces, 1.0);
    if (time - launch_ < min_part * time) return;
    const double busy = std::max(time - launch_, 0.1 * time), operations = work.flops.value();
    if (timed.point.is_arithmetic && operations > 0)
      flops.points.push_back({operations / pieces, operations / busy});
    if (!timed.point.is_arithmetic && bytes_of(work) > 0)
      bytes.points.push_back({bytes_of(work) / pieces, bytes_of(work) / busy});
  }
  /// Sorts by size; points of about one size become one, with the geometric mean of their values.
  static SizeCurve joined(SizeCurve curve) {
    std::ranges::sort(curve.points, {}, &SizeCurve::Point::size);
    SizeCurve result;
    for (size_t i = 0; i < curve.points.size();) {
      double size = 0, value = 0;
      size_t end = i;
      for (; end < curve.points.size() && curve.points[end].size < 1.5 * curve.points[i].size;
           ++end) {
        size += std::log(curve.points[end].size);
        value += std::log(curve.points[end].value);
      }
      const auto count = static_cast<double>(end - i);
      result.points.push_back({std::exp(size / count), std::exp(value / count)});
      i = end;
    }
    return result;
  }

  std::vector<Point> points_;
  double launch_ = std::numeric_limits<double>::infinity();
};

/// Does it compute so much more than it counts that it says nothing about its class?
bool is_a_class_of_its_own(const LocalWork& work) {
  return work.kernel == "random_uniform" || work.kernel == "sort";
}

}  // namespace

Seconds min_sample(std::span<const Seconds> samples) {
  Seconds sum(0);
  for (Seconds sample : samples) sum += sample;
  const Seconds stopped = Seconds(sum.value() / (4 * static_cast<double>(samples.size())));
  ensure(sum > Seconds(0), "a clock that is read for some time goes on");
  Seconds smallest(std::numeric_limits<double>::infinity());
  for (Seconds sample : samples)
    if (sample >= stopped) smallest = std::min(smallest, sample);
  return smallest;
}

Seconds time_of(const LocalCall& call, Seconds budget) {
  const BoundKernel kernel = bind_kernel(call);
  const Operands operands(call);
  AlignedBuffer workspace(kernel.workspace);
  const KernelBuffers buffers = operands.buffers(workspace.data());
  return min_time([&] { kernel.run(buffers); }, budget);
}

std::vector<size_t> disagreeing(std::span<const TimedPoint> times) {
  constexpr double kTolerance = 1.3;
  std::vector<LocalWork> works;
  for (const TimedPoint& timed : times) works.push_back(work_of(timed.point.call));
  const auto has_more = [](const LocalWork& a, const LocalWork& b) {
    if (a.kernel != b.kernel || a.bytes() < b.bytes()) return false;
    if (a.rows && b.rows)
      return a.rows->executed >= b.rows->executed && a.rows->copied >= b.rows->copied &&
             a.rows->row >= b.rows->row;
    return a.flops >= b.flops && a.pieces >= b.pieces &&
           bytes_of(a) / a.pieces >= bytes_of(b) / b.pieces;
  };
  std::vector<size_t> list;
  for (size_t i = 0; i < times.size(); ++i)
    for (size_t k = 0; k < times.size(); ++k)
      if (times[i].time.value() > kTolerance * times[k].time.value() &&
          has_more(works[k], works[i])) {
        list.push_back(i);
        break;
      }
  return list;
}

std::vector<TimedPoint> measure_kernels(const std::function<void(double)>& progress) {
  use_one_thread_for_kernels();
  constexpr int kRounds = 3;
  std::vector<TimedPoint> times;
  for (GridPoint& point : kernel_grid())
    times.push_back({std::move(point), Seconds(std::numeric_limits<double>::infinity())});
  const auto measure = [&](TimedPoint& timed) {
    timed.time = std::min(timed.time, time_of(timed.point.call, Seconds(0.0005)));
  };
  const auto all = static_cast<double>(kRounds * times.size());
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < times.size(); ++i) {
      if (progress) progress(static_cast<double>(round * times.size() + i) / all);
      measure(times[i]);
    }
  for (int again = 0; again < kRounds; ++again)
    for (size_t i : disagreeing(times)) measure(times[i]);
  return times;
}

DeviceCost rates_of(std::span<const TimedPoint> times) {
  std::map<OperationClass, RatesFit> classes;
  std::map<std::string_view, RatesFit> kernels;
  for (const TimedPoint& timed : times) {
    const LocalWork work = work_of(timed.point.call);
    if (!is_a_class_of_its_own(work)) classes[work.operation].add(timed);
    kernels[work.kernel].add(timed);
  }
  DeviceCost cost;
  for (const auto& [operation, fit] : classes) cost.classes[operation] = fit.rates();
  for (const auto& [kernel, fit] : kernels)
    cost.kernels[std::string(kernel)] = fit.has_rows() ? fit.rates_by_rows() : fit.rates();
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
      min_time([&] { std::memcpy(to.data(), from.data(), kBlock); }, Seconds(0.02));
  return static_cast<double>(kBlock) / time.value();
}

}  // namespace tessera
