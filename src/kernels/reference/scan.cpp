// cumsum, reverse
#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

int64_t with_index(const Shape& shape, Dims position, int64_t dim, int64_t index) {
  position[dim] = index;
  return flat_index(shape, position);
}

// Sums are rounded after every addition, those of f16 and bf16 to f32: the order is part of the
// definition.
double rounded_sum(DType dtype, double sum) {
  if (is_float(dtype)) return static_cast<float>(sum);
  return wrapped(static_cast<int64_t>(sum));
}

void cumsum(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType& type = call.inputs[0];
  const int64_t dim = call.ints[0], extent = type.shape[dim];
  const bool exclusive = call.ints[1] != 0, reverse = call.ints[2] != 0;
  for (int64_t i = 0; i < element_count(type.shape); ++i) {
    const Dims position = position_of(type.shape, i);
    const int64_t own = position[dim];
    // The number of elements that the sum includes in addition to its own.
    const int64_t before = reverse ? extent - 1 - own : own;
    double sum = 0;
    for (int64_t step = 0; step < before + (exclusive ? 0 : 1); ++step) {
      const int64_t at = with_index(type.shape, position, dim, reverse ? extent - 1 - step : step);
      sum = rounded_sum(type.dtype, sum + read(type, buffers.inputs[0], at));
    }
    write(type, buffers.outputs[0], i, sum);
  }
}

void reverse(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType& type = call.inputs[0];
  const int64_t dim = call.ints[0], extent = type.shape[dim];
  for (int64_t i = 0; i < element_count(type.shape); ++i) {
    const Dims position = position_of(type.shape, i);
    const int64_t from = with_index(type.shape, position, dim, extent - 1 - position[dim]);
    write(type, buffers.outputs[0], i, read(type, buffers.inputs[0], from));
  }
}

}  // namespace

Run scan(const LocalCall& call) {
  if (call.kernel == "cumsum")
    return [call](const KernelBuffers& buffers) { cumsum(call, buffers); };
  if (call.kernel == "reverse")
    return [call](const KernelBuffers& buffers) { reverse(call, buffers); };
  return nullptr;
}

}  // namespace tessera::reference
