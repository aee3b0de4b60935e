// argmax, argmin, sort (and, with fewer results, top_k): compare the elements of a lane with each
// other. Ties go to the lowest index.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/lanes.h"

namespace tessera {
namespace {

template <typename T>
bool is_nan(T value) {
  return value != value;
}

// A NaN is greater than all numbers.
template <typename T>
bool is_below(T a, T b) {
  return a < b || (is_nan(b) && !is_nan(a));
}

template <typename T, bool kLargest>
void find_extremes(const Lanes& lanes, const T* x, int32_t* out) {
  for (int64_t o = 0; o < lanes.outer; ++o)
    for (int64_t n = 0; n < lanes.inner; ++n) {
      const T* const lane = x + o * lanes.extent * lanes.inner + n;
      T best = lane[0];
      int64_t at = 0;
      for (int64_t i = 1; i < lanes.extent && !is_nan(best); ++i) {
        const T candidate = lane[i * lanes.inner];
        if (!(kLargest ? candidate > best : candidate < best) && !is_nan(candidate)) continue;
        best = candidate;
        at = i;
      }
      *out++ = static_cast<int32_t>(at);
    }
}

template <bool kLargest>
BoundKernel bind_arg(const LocalCall& call) {
  require_operands(call, 1, 1, 1);
  const TensorType& x = call.inputs[0];
  const Lanes lanes = lanes_of(call, x.shape, call.ints[0]);
  require(call, x.dtype != DType::kBool && call.outputs[0].dtype == DType::kI32,
          "compares f32 or i32 and gives i32");
  require(call, output_count(call) == lanes.outer * lanes.inner, "gives one index for each lane");
  require(call, lanes.extent > 0 || output_count(call) == 0, "finds one of some elements");
  const auto run = [lanes, dtype = x.dtype](const KernelBuffers& buffers) {
    if (dtype == DType::kF32)
      find_extremes<float, kLargest>(lanes, input<float>(buffers, 0), output<int32_t>(buffers, 0));
    else
      find_extremes<int32_t, kLargest>(lanes, input<int32_t>(buffers, 0),
                                       output<int32_t>(buffers, 0));
  };
  return {run, Bytes(0)};
}

template <typename T>
struct Indexed {
  T value;
  int32_t index;
};

// With the index in the comparison any sort is stable, so one that allocates no memory can be used.
template <typename T, bool kDescending>
struct Before {
  bool operator()(const Indexed<T>& a, const Indexed<T>& b) const {
    if (kDescending ? is_below(b.value, a.value) : is_below(a.value, b.value)) return true;
    if (kDescending ? is_below(a.value, b.value) : is_below(b.value, a.value)) return false;
    return a.index < b.index;
  }
};

template <typename T, bool kDescending>
void order_lane(Indexed<T>* lane, int64_t extent, int64_t count) {
  if (count == extent)
    std::sort(lane, lane + extent, Before<T, kDescending>());
  else
    std::partial_sort(lane, lane + count, lane + extent, Before<T, kDescending>());
}

template <typename T>
void order_lanes(const Lanes& lanes, int64_t count, bool descending, const T* x, Indexed<T>* space,
                 T* values, int32_t* indices) {
  for (int64_t o = 0; o < lanes.outer; ++o)
    for (int64_t n = 0; n < lanes.inner; ++n) {
      const int64_t from = o * lanes.extent * lanes.inner + n, to = o * count * lanes.inner + n;
      for (int64_t i = 0; i < lanes.extent; ++i)
        space[i] = {x[from + i * lanes.inner], static_cast<int32_t>(i)};
      if (descending)
        order_lane<T, true>(space, lanes.extent, count);
      else
        order_lane<T, false>(space, lanes.extent, count);
      for (int64_t i = 0; i < count; ++i) {
        values[to + i * lanes.inner] = space[i].value;
        indices[to + i * lanes.inner] = space[i].index;
      }
    }
}

template <typename T>
BoundKernel bind_sort_of(const LocalCall& call, const Lanes& lanes) {
  const int64_t count = call.outputs[0].shape[call.ints[0]];
  const auto run = [lanes, count, descending = call.ints[1] != 0](const KernelBuffers& buffers) {
    order_lanes(lanes, count, descending, input<T>(buffers, 0),
                reinterpret_cast<Indexed<T>*>(buffers.workspace), output<T>(buffers, 0),
                output<int32_t>(buffers, 1));
  };
  return {run, workspace_of_sort(call)};
}

}  // namespace

BoundKernel bind_argmax(const LocalCall& call) {
  return bind_arg<true>(call);
}

BoundKernel bind_argmin(const LocalCall& call) {
  return bind_arg<false>(call);
}

BoundKernel bind_sort(const LocalCall& call) {
  require_operands(call, 1, 2, 2);
  const TensorType &x = call.inputs[0], &values = call.outputs[0];
  const Lanes lanes = lanes_of(call, x.shape, call.ints[0]);
  require(call, x.dtype != DType::kBool && values.dtype == x.dtype, "sorts f32 or i32");
  require(call, call.outputs[1] == TensorType{DType::kI32, values.shape},
          "gives an i32 index for each value");
  require(call, equal_beside(x.shape, values.shape, call.ints[0]), "keeps the other dims");
  require(call, values.shape[call.ints[0]] <= lanes.extent, "gives no more than it has");
  return x.dtype == DType::kF32 ? bind_sort_of<float>(call, lanes)
                                : bind_sort_of<int32_t>(call, lanes);
}

/// A comparison for each element.
LocalWork work_of_arg(const LocalCall& call) {
  return work_over_operands(call, OperationClass::kReduction, elements_of(call.inputs[0]));
}

/// log2(extent) comparisons for each element, at least one.
LocalWork work_of_sort(const LocalCall& call) {
  const auto extent = static_cast<double>(call.inputs[0].shape[call.ints[0]]);
  const double comparisons = std::max(1.0, std::log2(extent));
  return work_over_operands(call, OperationClass::kReduction,
                            elements_of(call.inputs[0]) * comparisons);
}

Bytes workspace_of_sort(const LocalCall& call) {
  static_assert(sizeof(Indexed<float>) == sizeof(Indexed<int32_t>));
  const Lanes lanes = lanes_of(call, call.inputs[0].shape, call.ints[0]);
  return Bytes(lanes.extent * static_cast<int64_t>(sizeof(Indexed<float>)));
}

}  // namespace tessera
