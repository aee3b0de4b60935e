// grouped_matmul, grouped_outer
#include <algorithm>

#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

// The group of a row, counted over all ranks, or -1.
int64_t group_of(const LocalCall& call, const KernelBuffers& buffers, int64_t row) {
  const TensorType& sizes = call.inputs[2];
  int64_t end = 0;
  for (int64_t group = 0; group < sizes.shape[0]; ++group) {
    end += std::max<int64_t>(read_integer(sizes, buffers.inputs[2], group), 0);
    if (row < end) return group;
  }
  return -1;
}

void matmul(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &x = call.inputs[0], &w = call.inputs[1], &out = call.outputs[0];
  const bool transposed = call.ints[0] != 0;
  for (int64_t row = 0; row < out.shape[0]; ++row) {
    const int64_t group = group_of(call, buffers, row + call.ints[1]) - call.ints[2];
    const bool here =
        group >= 0 && group < w.shape[0] && group_of(call, buffers, row + call.ints[1]) >= 0;
    for (int64_t column = 0; column < out.shape[1]; ++column) {
      double sum = 0;
      for (int64_t k = 0; here && k < x.shape[1]; ++k)
        sum +=
            read(x, buffers.inputs[0], flat_index(x.shape, {row, k})) *
            read(w, buffers.inputs[1],
                 flat_index(w.shape, transposed ? Dims{group, column, k} : Dims{group, k, column}));
      write(out, buffers.outputs[0], flat_index(out.shape, {row, column}), sum);
    }
  }
}

void outer(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &x = call.inputs[0], &y = call.inputs[1], &out = call.outputs[0];
  for (int64_t i = 0; i < element_count(out.shape); ++i) {
    const Dims at = position_of(out.shape, i);
    double sum = 0;
    for (int64_t row = 0; row < x.shape[0]; ++row)
      if (group_of(call, buffers, row + call.ints[0]) == at[0] + call.ints[1])
        sum += read(x, buffers.inputs[0], flat_index(x.shape, {row, at[1]})) *
               read(y, buffers.inputs[1], flat_index(y.shape, {row, at[2]}));
    write(out, buffers.outputs[0], i, sum);
  }
}

}  // namespace

Run grouped(const LocalCall& call) {
  if (call.kernel == "grouped_matmul")
    return [call](const KernelBuffers& buffers) { matmul(call, buffers); };
  if (call.kernel == "grouped_outer")
    return [call](const KernelBuffers& buffers) { outer(call, buffers); };
  return nullptr;
}

}  // namespace tessera::reference
