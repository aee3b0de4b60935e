// convolution and its gradients, max_pool, average_pool, resize and their gradients, with all
// positions of every tensor written out.
#include <cmath>
#include <limits>

#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

std::vector<double> read_all(const TensorType& type, const std::byte* data) {
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(type.shape); ++i) values.push_back(read(type, data, i));
  return values;
}

void write_all(const TensorType& type, std::byte* data, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) write(type, data, i, values[i]);
}

/// The dims of space of a tensor.
Shape space_of(const TensorType& type) {
  Shape space;
  for (int d = 2; d < type.shape.size(); ++d) space.push_back(type.shape[d]);
  return space;
}

/// The seven integers of each dim: window, stride, dilation, low, extent, begin of the operand,
/// begin of the result.
struct Window {
  const LocalCall& call;

  int64_t at(int d, int which) const { return call.ints[d * 7 + which]; }
  Shape extents(int count) const {
    Shape shape;
    for (int d = 0; d < count; ++d) shape.push_back(at(d, 0));
    return shape;
  }
  /// The position in the whole dim.
  int64_t position(int d, int64_t place, int64_t w) const {
    return (place + at(d, 6)) * at(d, 1) - at(d, 3) + w * at(d, 2);
  }
};

/// Calls visit(position of the result, element of the window, position in the operand) for every
/// element inside the local operand.
template <typename Visit>
void for_each_tap(const LocalCall& call, const Shape& in, const Shape& out, Visit visit) {
  const Window window{call};
  const Shape extents = window.extents(in.size());
  for (int64_t o = 0; o < element_count(out); ++o)
    for (int64_t w = 0; w < element_count(extents); ++w) {
      const Dims place = position_of(out, o), element = position_of(extents, w);
      Dims source = place;
      bool inside = true;
      for (int d = 0; d < in.size(); ++d) {
        source[d] = window.position(d, place[d], element[d]) - window.at(d, 5);
        inside = inside && source[d] >= 0 && source[d] < in[d];
      }
      if (inside) visit(o, w, flat_index(in, source));
    }
}

void convolve(const LocalCall& call, const KernelBuffers& buffers) {
  const bool gives_x = call.kernel == "convolution_grad_input",
             gives_w = call.kernel == "convolution_grad_weight";
  const TensorType& x = gives_x ? call.outputs[0] : call.inputs[0];
  const TensorType& w = gives_w ? call.outputs[0] : call.inputs[1];
  const TensorType& y = gives_x ? call.inputs[0] : gives_w ? call.inputs[1] : call.outputs[0];
  const std::vector<double> a = read_all(call.inputs[0], buffers.inputs[0]),
                            b = read_all(call.inputs[1], buffers.inputs[1]);
  std::vector<double> sums(element_count(call.outputs[0].shape), 0.0);
  const int64_t in_size = element_count(space_of(x)), out_size = element_count(space_of(y)),
                window_size = element_count(space_of(w));
  const int64_t ins = w.shape[1], groups = ins == 0 ? 1 : x.shape[1] / ins,
                outs = groups == 0 ? 0 : w.shape[0] / groups;
  for (int64_t n = 0; n < x.shape[0]; ++n)
    for (int64_t channel = 0; channel < groups * outs; ++channel)
      for (int64_t i = 0; i < ins; ++i)
        for_each_tap(
            call, space_of(x), space_of(y), [&](int64_t place, int64_t element, int64_t position) {
              const size_t at_x = (n * x.shape[1] + channel / outs * ins + i) * in_size + position;
              const size_t at_w = (channel * ins + i) * window_size + element;
              const size_t at_y = (n * y.shape[1] + channel) * out_size + place;
              if (gives_x)
                sums[at_x] += a[at_y] * b[at_w];
              else if (gives_w)
                sums[at_w] += a[at_x] * b[at_y];
              else
                sums[at_y] += a[at_x] * b[at_w];
            });
  write_all(call.outputs[0], buffers.outputs[0], sums);
}

bool exceeds(double x, double best) {
  return x > best || (std::isnan(x) && !std::isnan(best));
}

/// For each position of the result, the position of the largest element that its window reads; -1
/// for none.
std::vector<int64_t> largest_of(const LocalCall& call, const Shape& in, const Shape& out,
                                const double* x) {
  std::vector<int64_t> best(element_count(out), -1);
  for_each_tap(call, in, out, [&](int64_t place, int64_t, int64_t position) {
    int64_t& held = best[place];
    if (held < 0 || exceeds(x[position], x[held])) held = position;
  });
  return best;
}

void max_pool(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  const std::vector<double> values = read_all(x, buffers.inputs[0]);
  const int64_t in_size = element_count(space_of(x)), out_size = element_count(space_of(y));
  for (int64_t plane = 0; plane < x.shape[0] * x.shape[1]; ++plane) {
    const double* const held = values.data() + plane * in_size;
    const std::vector<int64_t> best = largest_of(call, space_of(x), space_of(y), held);
    for (int64_t place = 0; place < out_size; ++place) {
      const int64_t position = best[place];
      write(y, buffers.outputs[0], plane * out_size + place,
            position < 0 ? -std::numeric_limits<double>::infinity() : held[position]);
    }
  }
}

void max_pool_grad(const LocalCall& call, const KernelBuffers& buffers) {
  const TensorType &x = call.inputs[0], &dy = call.inputs[1], &dx = call.outputs[0];
  const std::vector<double> values = read_all(x, buffers.inputs[0]),
                            flow = read_all(dy, buffers.inputs[1]);
  const Shape in = space_of(x), made = space_of(dx);
  const int64_t in_size = element_count(in), out_size = element_count(space_of(dy)),
                made_size = element_count(made);
  std::vector<double> sums(element_count(dx.shape), 0.0);
  for (int64_t plane = 0; plane < x.shape[0] * x.shape[1]; ++plane) {
    const std::vector<int64_t> best =
        largest_of(call, in, space_of(dy), values.data() + plane * in_size);
    for (int64_t place = 0; place < out_size; ++place) {
      if (best[place] < 0) continue;
      Dims position = position_of(in, best[place]);
      bool inside = true;
      for (int d = 0; d < in.size(); ++d) {
        position[d] += Window{call}.at(d, 5) - call.ints[7 * in.size() + d];
        inside = inside && position[d] >= 0 && position[d] < made[d];
      }
      if (inside)
        sums[plane * made_size + flat_index(made, position)] += flow[plane * out_size + place];
    }
  }
  write_all(dx, buffers.outputs[0], sums);
}

/// The number of elements of the average at a position: those in the whole operand, or all of the
/// window.
int64_t count_at(const LocalCall& call, const Shape& out, int64_t place) {
  const Window window{call};
  const Dims index = position_of(out, place);
  const bool counts_padding = call.ints.back() != 0;
  int64_t count = 1;
  for (int d = 0; d < out.size(); ++d) {
    int64_t inside = 0;
    for (int64_t w = 0; w < window.at(d, 0); ++w) {
      const int64_t position = window.position(d, index[d], w);
      inside += counts_padding || (position >= 0 && position < window.at(d, 4)) ? 1 : 0;
    }
    count *= inside;
  }
  return count;
}

/// The mean of the elements that each window reads, or its gradient.
void average(const LocalCall& call, const KernelBuffers& buffers) {
  const bool is_gradient = call.kernel == "average_pool_grad";
  const TensorType& x = is_gradient ? call.outputs[0] : call.inputs[0];
  const TensorType& y = is_gradient ? call.inputs[0] : call.outputs[0];
  const std::vector<double> values = read_all(call.inputs[0], buffers.inputs[0]);
  std::vector<double> sums(element_count(call.outputs[0].shape), 0.0);
  const int64_t in_size = element_count(space_of(x)), out_size = element_count(space_of(y));
  for (int64_t plane = 0; plane < x.shape[0] * x.shape[1]; ++plane)
    for_each_tap(call, space_of(x), space_of(y), [&](int64_t place, int64_t, int64_t position) {
      const int64_t at_x = plane * in_size + position, at_y = plane * out_size + place;
      const auto count = static_cast<double>(count_at(call, space_of(y), place));
      if (is_gradient)
        sums[at_x] += values[at_y] / count;
      else
        sums[at_y] += values[at_x] / count;
    });
  write_all(call.outputs[0], buffers.outputs[0], sums);
}

/// The weight of position `in` of one dim in position `out`; ints are the four of the dim. The
/// weights form a hat of height one, or select the nearest element, the lower one of two.
double share_of(const LocalCall& call, int d, int64_t in, int64_t out) {
  const auto at = [&](int which) { return call.ints[d * 4 + which]; };
  const int64_t ins = at(0), outs = at(1), position = in + at(2), place = out + at(3);
  const bool aligns_corners = call.text.ends_with(" align_corners");
  // All positions are multiplied by `unit`, so that they stay whole numbers.
  const int64_t unit = aligns_corners ? std::max<int64_t>(outs - 1, 1) : 2 * outs;
  int64_t source =
      aligns_corners ? (outs == 1 ? 0 : place * (ins - 1)) : (2 * place + 1) * ins - outs;
  source = std::max<int64_t>(0, std::min(source, (ins - 1) * unit));
  const int64_t away = position * unit - source;
  if (call.text.starts_with("linear "))
    return std::max(0.0, 1 - std::abs(static_cast<double>(away)) / static_cast<double>(unit));
  return 2 * away >= -unit && 2 * away < unit ? 1 : 0;
}

/// Computes each element of the result from all of the operand, or its gradient.
void resize(const LocalCall& call, const KernelBuffers& buffers) {
  const bool is_gradient = call.kernel == "resize_grad";
  const TensorType& x = is_gradient ? call.outputs[0] : call.inputs[0];
  const TensorType& y = is_gradient ? call.inputs[0] : call.outputs[0];
  const Shape in = space_of(x), out = space_of(y);
  const std::vector<double> values = read_all(call.inputs[0], buffers.inputs[0]);
  std::vector<double> sums(element_count(call.outputs[0].shape), 0.0);
  for (int64_t plane = 0; plane < x.shape[0] * x.shape[1]; ++plane)
    for (int64_t o = 0; o < element_count(out); ++o)
      for (int64_t i = 0; i < element_count(in); ++i) {
        double share = 1;
        for (int d = 0; d < in.size(); ++d)
          share *= share_of(call, d, position_of(in, i)[d], position_of(out, o)[d]);
        if (share == 0) continue;
        const int64_t at_x = plane * element_count(in) + i, at_y = plane * element_count(out) + o;
        if (is_gradient)
          sums[at_x] += share * values[at_y];
        else
          sums[at_y] += share * values[at_x];
      }
  write_all(call.outputs[0], buffers.outputs[0], sums);
}

}  // namespace

Run spatial(const LocalCall& call) {
  const auto with = [&call](void (*run)(const LocalCall&, const KernelBuffers&)) -> Run {
    return [call, run](const KernelBuffers& buffers) { run(call, buffers); };
  };
  if (call.kernel.starts_with("convolution")) return with(convolve);
  if (call.kernel == "max_pool") return with(max_pool);
  if (call.kernel == "max_pool_grad") return with(max_pool_grad);
  if (call.kernel.starts_with("average_pool")) return with(average);
  if (call.kernel.starts_with("resize")) return with(resize);
  return nullptr;
}

}  // namespace tessera::reference
