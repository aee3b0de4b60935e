// argmax, argmin, sort
#include <cmath>

#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

// The element of x at `index` of the lane through `position`.
double element(const LocalCall& call, const KernelBuffers& buffers, Dims position, int64_t index) {
  position[call.ints[0]] = index;
  return read(call.inputs[0], buffers.inputs[0], flat_index(call.inputs[0].shape, position));
}

int64_t extent_of(const LocalCall& call) {
  return call.inputs[0].shape[call.ints[0]];
}

// A position of the output with an index of 0 in the removed dim.
Dims lane_of(const LocalCall& call, const Dims& kept) {
  Dims position;
  for (int dim = 0, next = 0; dim < call.inputs[0].shape.size(); ++dim)
    position.push_back(dim == call.ints[0] ? 0 : kept[next++]);
  return position;
}

void arg(const LocalCall& call, const KernelBuffers& buffers, bool largest) {
  const TensorType& out = call.outputs[0];
  for (int64_t i = 0; i < element_count(out.shape); ++i) {
    const Dims lane = lane_of(call, position_of(out.shape, i));
    int64_t best = 0;
    for (int64_t index = 1; index < extent_of(call); ++index) {
      const double value = element(call, buffers, lane, index),
                   known = element(call, buffers, lane, best);
      if (std::isnan(known)) break;
      if (std::isnan(value) || (largest ? value > known : value < known)) best = index;
    }
    write(out, buffers.outputs[0], i, static_cast<double>(best));
  }
}

bool is_below(double a, double b) {
  return a < b || (std::isnan(b) && !std::isnan(a));
}

// The position of an element is the number of elements that come before it.
void sort(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &in = call.inputs[0], &out = call.outputs[0];
  const int64_t dim = call.ints[0];
  for (int64_t i = 0; i < element_count(in.shape); ++i) {
    Dims position = position_of(in.shape, i);
    const int64_t own = position[dim];
    const double value = read(in, buffers.inputs[0], i);
    int64_t place = 0;
    for (int64_t index = 0; index < extent_of(call); ++index) {
      const double other = element(call, buffers, position, index);
      const bool first = call.ints[1] != 0 ? is_below(value, other) : is_below(other, value);
      const bool last = call.ints[1] != 0 ? is_below(other, value) : is_below(value, other);
      if (first || (!last && index < own)) ++place;
    }
    if (place >= out.shape[dim]) continue;
    position[dim] = place;
    write(out, buffers.outputs[0], flat_index(out.shape, position), value);
    write(call.outputs[1], buffers.outputs[1], flat_index(out.shape, position),
          static_cast<double>(own));
  }
}

}  // namespace

Run order(const LocalCall& call) {
  if (call.kernel == "argmax")
    return [call](const KernelBuffers& buffers) { arg(call, buffers, true); };
  if (call.kernel == "argmin")
    return [call](const KernelBuffers& buffers) { arg(call, buffers, false); };
  if (call.kernel == "sort") return [call](const KernelBuffers& buffers) { sort(call, buffers); };
  return nullptr;
}

}  // namespace tessera::reference
