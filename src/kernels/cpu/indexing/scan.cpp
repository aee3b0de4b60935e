// cumsum, reverse: process rows of `inner` elements along one dim, forward or backward.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/lanes.h"

namespace tessera {
namespace {

// i32 wraps: its sums are computed with unsigned numbers, which have the same bits.
template <typename T>
void cumulate(const Lanes& lanes, bool exclusive, bool reverse, const T* x, T* out) {
  const int64_t step = reverse ? -lanes.inner : lanes.inner;
  for (int64_t o = 0; o < lanes.outer; ++o) {
    const int64_t first =
        o * lanes.extent * lanes.inner + (reverse ? (lanes.extent - 1) * lanes.inner : 0);
    // Row i of the sums is row i - 1 with one more row of x.
    for (int64_t i = 0, at = first; i < lanes.extent; ++i, at += step) {
      const T* const added = x + (exclusive ? at - step : at);
      if (i == 0) {
        if (exclusive)
          std::fill_n(out + at, lanes.inner, T{0});
        else
          std::copy_n(x + at, lanes.inner, out + at);
        continue;
      }
      const T* const before = out + at - step;
      for (int64_t n = 0; n < lanes.inner; ++n) out[at + n] = before[n] + added[n];
    }
  }
}

template <typename T>
BoundKernel bind_cumsum_of(const LocalCall& call) {
  const Lanes lanes = lanes_of(call, call.inputs[0].shape, call.ints[0]);
  const auto run = [lanes, exclusive = call.ints[1] != 0,
                    reverse = call.ints[2] != 0](const KernelBuffers& buffers) {
    cumulate(lanes, exclusive, reverse, input<T>(buffers, 0), output<T>(buffers, 0));
  };
  return {run, Bytes(0)};
}

}  // namespace

BoundKernel bind_cumsum(const LocalCall& call) {
  require_operands(call, 1, 1, 3);
  require(call, call.inputs[0] == call.outputs[0], "gives the type of its input");
  require(call, call.inputs[0].dtype != DType::kBool, "adds f32 or i32");
  return call.inputs[0].dtype == DType::kF32 ? bind_cumsum_of<float>(call)
                                             : bind_cumsum_of<uint32_t>(call);
}

BoundKernel bind_reverse(const LocalCall& call) {
  require_operands(call, 1, 1, 1);
  require(call, call.inputs[0] == call.outputs[0], "gives the type of its input");
  const Lanes lanes = lanes_of(call, call.inputs[0].shape, call.ints[0]);
  const auto run = [lanes, row = lanes.inner *
                                 size_of(call.inputs[0].dtype)](const KernelBuffers& buffers) {
    if (row == 0) return;
    for (int64_t o = 0; o < lanes.outer; ++o)
      for (int64_t i = 0; i < lanes.extent; ++i)
        std::memcpy(buffers.outputs[0] + (o * lanes.extent + i) * row,
                    buffers.inputs[0] + ((o + 1) * lanes.extent - 1 - i) * row, row);
  };
  return {run, Bytes(0)};
}

LocalWork work_of_cumsum(const LocalCall& call) {
  return work_over_operands(call, OperationClass::kReduction, elements_of(call.outputs[0]));
}

}  // namespace tessera
