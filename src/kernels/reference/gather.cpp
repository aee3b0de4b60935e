// gather, scatter_add
#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

void gather_rows(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &table = call.inputs[0], &ids = call.inputs[1], &out = call.outputs[0];
  const int64_t id_count = element_count(ids.shape);
  const int64_t row_size = id_count == 0 ? 0 : element_count(out.shape) / id_count;
  for (int64_t i = 0; i < id_count; ++i) {
    const int64_t row = read_integer(ids, buffers.inputs[1], i) - call.ints[0];
    const bool inside = row >= 0 && row < table.shape[0];
    for (int64_t column = 0; column < row_size; ++column)
      write(out, buffers.outputs[0], i * row_size + column,
            inside ? read(table, buffers.inputs[0], row * row_size + column) : 0.0);
  }
}

// The sums are rounded to f32 after each addition: the order of the updates is part of the
// definition.
void scatter_rows(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &ids = call.inputs[0], &updates = call.inputs[1], &out = call.outputs[0];
  const int64_t id_count = element_count(ids.shape);
  const int64_t row_size = id_count == 0 ? 0 : element_count(updates.shape) / id_count;
  for (int64_t i = 0; i < element_count(out.shape); ++i) write(out, buffers.outputs[0], i, 0.0);
  for (int64_t i = 0; i < id_count; ++i) {
    const int64_t row = read_integer(ids, buffers.inputs[0], i) - call.ints[0];
    if (row < 0 || row >= out.shape[0]) continue;
    for (int64_t column = 0; column < row_size; ++column) {
      const int64_t place = row * row_size + column;
      write(out, buffers.outputs[0], place,
            read(out, buffers.outputs[0], place) +
                read(updates, buffers.inputs[1], i * row_size + column));
    }
  }
}

}  // namespace

Run gather(const LocalCall& call) {
  if (call.kernel == "gather")
    return [call](const KernelBuffers& buffers) { gather_rows(call, buffers); };
  if (call.kernel == "scatter_add")
    return [call](const KernelBuffers& buffers) { scatter_rows(call, buffers); };
  return nullptr;
}

}  // namespace tessera::reference
