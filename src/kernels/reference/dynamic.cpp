// dynamic_slice, dynamic_update
#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

int64_t start_at(const LocalCall& call, const KernelBuffers& buffers, size_t operand) {
  return read_integer(call.inputs[operand], buffers.inputs[operand], 0);
}

bool is_inside(const Dims& position, const Shape& shape) {
  for (int dim = 0; dim < shape.size(); ++dim)
    if (position[dim] < 0 || position[dim] >= shape[dim]) return false;
  return true;
}

void slice(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &in = call.inputs[0], &out = call.outputs[0];
  for (int64_t i = 0; i < element_count(out.shape); ++i) {
    Dims position = position_of(out.shape, i);
    for (size_t k = 0; k + 1 < call.inputs.size(); ++k)
      position[call.ints[3 * k]] +=
          start_at(call, buffers, 1 + k) + call.ints[3 * k + 2] - call.ints[3 * k + 1];
    write(out, buffers.outputs[0], i,
          is_inside(position, in.shape)
              ? read(in, buffers.inputs[0], flat_index(in.shape, position))
              : 0.0);
  }
}

void update(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &window = call.inputs[1], &out = call.outputs[0];
  for (int64_t i = 0; i < element_count(out.shape); ++i)
    write(out, buffers.outputs[0], i, read(out, buffers.inputs[0], i));
  for (int64_t i = 0; i < element_count(window.shape); ++i) {
    Dims position = position_of(window.shape, i);
    for (size_t k = 0; k + 2 < call.inputs.size(); ++k)
      position[call.ints[2 * k]] += start_at(call, buffers, 2 + k) - call.ints[2 * k + 1];
    if (is_inside(position, out.shape))
      write(out, buffers.outputs[0], flat_index(out.shape, position),
            read(window, buffers.inputs[1], i));
  }
}

}  // namespace

Run dynamic(const LocalCall& call) {
  if (call.kernel == "dynamic_slice")
    return [call](const KernelBuffers& buffers) { slice(call, buffers); };
  if (call.kernel == "dynamic_update")
    return [call](const KernelBuffers& buffers) { update(call, buffers); };
  return nullptr;
}

}  // namespace tessera::reference
