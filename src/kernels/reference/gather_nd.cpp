// take_along_dim, scatter_add_along_dim, gather_nd, scatter_nd, scatter_add_nd
#include <algorithm>

#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

// The element of `tensor` that id number i selects in its lane, or -1.
int64_t named_in_lane(const LocalCall& call, const TensorType& tensor, const TensorType& ids,
                      const std::byte* data, int64_t i) {
  Dims position = position_of(ids.shape, i);
  const int64_t dim = call.ints[0];
  position[dim] = read_integer(ids, data, i) - call.ints[1];
  return position[dim] < 0 || position[dim] >= tensor.shape[dim]
             ? -1
             : flat_index(tensor.shape, position);
}

void take(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &x = call.inputs[0], &out = call.outputs[0];
  for (int64_t i = 0; i < element_count(out.shape); ++i) {
    const int64_t at = named_in_lane(call, x, call.inputs[1], buffers.inputs[1], i);
    write(out, buffers.outputs[0], i, at < 0 ? 0.0 : read(x, buffers.inputs[0], at));
  }
}

// Sums are rounded to f32 after each addition: the order of the updates is part of the definition.
void add_at(const TensorType& out, std::byte* data, int64_t at, double update) {
  write(out, data, at, read(out, data, at) + update);
}

void fill_zeros(const TensorType& out, std::byte* data) {
  for (int64_t i = 0; i < element_count(out.shape); ++i) write(out, data, i, 0.0);
}

void scatter_add_in_lane(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &updates = call.inputs[1], &out = call.outputs[0];
  fill_zeros(out, buffers.outputs[0]);
  for (int64_t i = 0; i < element_count(updates.shape); ++i) {
    const int64_t at = named_in_lane(call, out, call.inputs[0], buffers.inputs[0], i);
    if (at >= 0) add_at(out, buffers.outputs[0], at, read(updates, buffers.inputs[1], i));
  }
}

// Calls visit(element of the updates, element of the table or -1) for every element of the updates.
template <typename Visit>
void for_each_update(const LocalCall& call, const TensorType& table, const TensorType& ids,
                     const std::byte* data, const TensorType& updates, Visit visit) {
  const int64_t depth = std::ssize(call.ints);
  const int index_dims = ids.shape.size() - 1;
  for (int64_t i = 0; i < element_count(updates.shape); ++i) {
    const Dims position = position_of(updates.shape, i);
    Dims index, target;
    for (int d = 0; d < index_dims; ++d) index.push_back(position[d]);
    bool inside = true;
    for (int j = 0; j < depth; ++j) {
      Dims of_id = index;
      of_id.push_back(j);
      target.push_back(read_integer(ids, data, flat_index(ids.shape, of_id)) - call.ints[j]);
      inside = inside && target[j] >= 0 && target[j] < table.shape[j];
    }
    for (int d = index_dims; d < updates.shape.size(); ++d) target.push_back(position[d]);
    visit(i, inside ? flat_index(table.shape, target) : -1);
  }
}

void gather_rows(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &table = call.inputs[0], &out = call.outputs[0];
  for_each_update(call, table, call.inputs[1], buffers.inputs[1], out, [&](int64_t i, int64_t at) {
    write(out, buffers.outputs[0], i, at < 0 ? 0.0 : read(table, buffers.inputs[0], at));
  });
}

void scatter_rows(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &out = call.outputs[0], &updates = call.inputs[2];
  for (int64_t i = 0; i < element_count(out.shape); ++i)
    write(out, buffers.outputs[0], i, read(out, buffers.inputs[0], i));
  for_each_update(call, out, call.inputs[1], buffers.inputs[1], updates,
                  [&](int64_t i, int64_t at) {
                    if (at >= 0)
                      write(out, buffers.outputs[0], at, read(updates, buffers.inputs[2], i));
                  });
}

void scatter_add_rows(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &out = call.outputs[0], &updates = call.inputs[1];
  fill_zeros(out, buffers.outputs[0]);
  for_each_update(call, out, call.inputs[0], buffers.inputs[0], updates,
                  [&](int64_t i, int64_t at) {
                    if (at >= 0)
                      add_at(out, buffers.outputs[0], at, read(updates, buffers.inputs[1], i));
                  });
}

}  // namespace

Run gather_nd(const LocalCall& call) {
  if (call.kernel == "take_along_dim")
    return [call](const KernelBuffers& buffers) { take(call, buffers); };
  if (call.kernel == "scatter_add_along_dim")
    return [call](const KernelBuffers& buffers) { scatter_add_in_lane(call, buffers); };
  if (call.kernel == "gather_nd")
    return [call](const KernelBuffers& buffers) { gather_rows(call, buffers); };
  if (call.kernel == "scatter_nd")
    return [call](const KernelBuffers& buffers) { scatter_rows(call, buffers); };
  if (call.kernel == "scatter_add_nd")
    return [call](const KernelBuffers& buffers) { scatter_add_rows(call, buffers); };
  return nullptr;
}

}  // namespace tessera::reference
