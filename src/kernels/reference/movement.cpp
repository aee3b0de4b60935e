// constant, iota, broadcast, copy, transpose, slice, pad, concat, chunks
#include <optional>

#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

int64_t int_at(const LocalCall& call, int index) {
  return call.ints[index];
}

// The position in the input from which the element at `out` of the output comes.
Dims broadcast_source(const LocalCall& call, const Dims& out) {
  Dims in;
  for (int dim = 0; dim < call.inputs[0].shape.size(); ++dim)
    in.push_back(call.inputs[0].shape[dim] == 1 ? 0 : out[int_at(call, dim)]);
  return in;
}

Dims transpose_source(const LocalCall& call, const Dims& out) {
  Dims in = out;
  for (int dim = 0; dim < out.size(); ++dim) in[int_at(call, dim)] = out[dim];
  return in;
}

Dims slice_source(const LocalCall& call, const Dims& out) {
  Dims in = out;
  for (int dim = 0; dim < out.size(); ++dim)
    in[dim] = int_at(call, dim) + out[dim] * int_at(call, dim + out.size());
  return in;
}

// nullopt where the output holds the padding.
std::optional<Dims> pad_source(const LocalCall& call, const Dims& out) {
  Dims in = out;
  for (int dim = 0; dim < out.size(); ++dim) {
    in[dim] = out[dim] - int_at(call, dim);
    if (in[dim] < 0 || in[dim] >= call.inputs[0].shape[dim]) return std::nullopt;
  }
  return in;
}

double pad_element(const LocalCall& call, const KernelBuffers& buffers, const Dims& out) {
  const std::optional<Dims> in = pad_source(call, out);
  return in ? read(call.inputs[0], buffers.inputs[0], flat_index(call.inputs[0].shape, *in))
            : call.reals[0];
}

double concat_element(const LocalCall& call, const KernelBuffers& buffers, Dims position) {
  const int64_t dim = call.ints[0];
  size_t part = 0;
  for (; position[dim] >= call.inputs[part].shape[dim]; ++part)
    position[dim] -= call.inputs[part].shape[dim];
  return read(call.inputs[part], buffers.inputs[part],
              flat_index(call.inputs[part].shape, position));
}

double take_chunk_element(const LocalCall& call, const KernelBuffers& buffers, Dims position) {
  const int64_t dim = call.ints[0];
  const Shape &whole = call.inputs[0].shape, &chunk = call.outputs[0].shape;
  const int64_t block = whole[dim] / call.ints[1], part = chunk[dim] / call.ints[1];
  position[dim] = position[dim] / part * block + call.ints[2] * part + position[dim] % part;
  return read(call.inputs[0], buffers.inputs[0], flat_index(whole, position));
}

double join_chunks_element(const LocalCall& call, const KernelBuffers& buffers, Dims position) {
  const int64_t dim = call.ints[0];
  const int64_t block = call.outputs[0].shape[dim] / call.ints[1];
  const int64_t in_block = position[dim] % block;
  int64_t begin = 0;
  size_t chunk = 0;
  const auto part = [&] { return call.inputs[chunk].shape[dim] / call.ints[1]; };
  for (; in_block >= begin + part(); ++chunk) begin += part();
  position[dim] = position[dim] / block * part() + in_block - begin;
  return read(call.inputs[chunk], buffers.inputs[chunk],
              flat_index(call.inputs[chunk].shape, position));
}

// The value of the output at a position.
using Element = std::function<double(const LocalCall& call, const KernelBuffers& buffers,
                                     const Dims& position)>;

Element from(Dims (*source)(const LocalCall&, const Dims&)) {
  return [source](const LocalCall& call, const KernelBuffers& buffers, const Dims& position) {
    return read(call.inputs[0], buffers.inputs[0],
                flat_index(call.inputs[0].shape, source(call, position)));
  };
}

Element element_of(const std::string& kernel) {
  if (kernel == "constant")
    return [](const LocalCall& call, const KernelBuffers&, const Dims&) { return call.reals[0]; };
  if (kernel == "iota")
    return [](const LocalCall& call, const KernelBuffers&, const Dims& position) {
      return static_cast<double>(call.ints[1] + position[call.ints[0]]);
    };
  if (kernel == "copy")
    return [](const LocalCall& call, const KernelBuffers& buffers, const Dims& position) {
      return read(call.inputs[0], buffers.inputs[0], flat_index(call.outputs[0].shape, position));
    };
  if (kernel == "broadcast") return from(broadcast_source);
  if (kernel == "transpose") return from(transpose_source);
  if (kernel == "slice") return from(slice_source);
  if (kernel == "pad") return pad_element;
  if (kernel == "concat") return concat_element;
  if (kernel == "take_chunk") return take_chunk_element;
  if (kernel == "join_chunks") return join_chunks_element;
  return nullptr;
}

}  // namespace

Run movement(const LocalCall& call) {
  const Element element = element_of(call.kernel);
  if (!element) return nullptr;
  return [call, element](const KernelBuffers& buffers) {
    const TensorType& out = call.outputs[0];
    for (int64_t i = 0; i < element_count(out.shape); ++i)
      write(out, buffers.outputs[0], i, element(call, buffers, position_of(out.shape, i)));
  };
}

}  // namespace tessera::reference
