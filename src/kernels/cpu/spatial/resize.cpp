// resize and resize_grad: each element of the larger side is one element of the other, or a
// weighted mean of two along each dim.
//
// The positions that a result reads are exact: they are fractions of whole numbers, which are
// rounded only when they become weights.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

/// The neighbours of one element of the result along a dim, as positions in the local operand. A
/// weight of zero has no neighbour.
struct Neighbours {
  int64_t low = 0, high = 0;
  float low_weight = 1, high_weight = 0;
};

struct ResizedDim {
  int64_t in = 1, out = 1;  // local extents
  std::vector<Neighbours> neighbours{Neighbours{}};
};

/// The parameters of one dim: extents of the whole tensors, and the begins of the local parts.
struct ResizeInts {
  int64_t in, out, in_begin, out_begin;
};

/// A position among the elements of the operand, as numerator / denominator.
struct Fraction {
  int64_t numerator, denominator;
};

Fraction source_of(const ResizeInts& ints, bool aligns_corners, int64_t place) {
  if (!aligns_corners) return {(2 * place + 1) * ints.in - ints.out, 2 * ints.out};
  if (ints.out == 1) return {0, 1};
  return {place * (ints.in - 1), ints.out - 1};
}

Neighbours neighbours_of(const ResizeInts& ints, bool is_linear, bool aligns_corners,
                         int64_t place) {
  const Fraction source = source_of(ints, aligns_corners, place);
  const int64_t whole = source.denominator;
  const int64_t numerator = std::clamp<int64_t>(source.numerator, 0, (ints.in - 1) * whole);
  const int64_t rest = numerator % whole;
  Neighbours found{numerator / whole - ints.in_begin, numerator / whole - ints.in_begin, 1, 0};
  if (rest == 0) return found;
  if (!is_linear) {
    // Half way between two, the lower one is the nearest.
    if (2 * rest > whole) ++found.low;
    return found;
  }
  ++found.high;
  found.low_weight =
      static_cast<float>(static_cast<double>(whole - rest) / static_cast<double>(whole));
  found.high_weight = static_cast<float>(static_cast<double>(rest) / static_cast<double>(whole));
  return found;
}

constexpr size_t kIntsOfDim = 4;

struct Resize {
  int64_t planes = 0;
  std::array<ResizedDim, 3> dims;

  int64_t in_size() const { return dims[0].in * dims[1].in * dims[2].in; }
  int64_t out_size() const { return dims[0].out * dims[1].out * dims[2].out; }
};

Resize resize_of(const LocalCall& call, const TensorType& in, const TensorType& out) {
  require(call, is_kernel_float(in.dtype) && in.dtype == out.dtype, "resizes f32");
  require(call, in.shape.size() >= 3 && in.shape.size() <= 5 && in.shape.size() == out.shape.size(),
          "has one to three dims of space");
  require(call, in.shape[0] == out.shape[0] && in.shape[1] == out.shape[1],
          "batch and channels stay");
  const size_t count = in.shape.size() - 2;
  require_operands(call, 1, 1, count * kIntsOfDim);
  const bool is_linear = call.text.starts_with("linear "),
             aligns_corners = call.text.ends_with(" align_corners");
  Resize resize{in.shape[0] * in.shape[1], {}};
  for (size_t d = 0; d < count; ++d) {
    const int64_t* given = call.ints.data() + d * kIntsOfDim;
    const ResizeInts ints{given[0], given[1], given[2], given[3]};
    ResizedDim& dim = resize.dims[3 - count + d];
    dim = {in.shape[d + 2], out.shape[d + 2], {}};
    require(call, ints.in > 0 || dim.out == 0, "an operand that is empty has an empty result");
    for (int64_t place = 0; place < dim.out; ++place)
      dim.neighbours.push_back(
          neighbours_of(ints, is_linear, aligns_corners, ints.out_begin + place));
  }
  return resize;
}

/// Calls visit(row of the operand, row of the result, weight) for each pair of rows that belong
/// together, by row of the result. A row is given by the elements before it in a plane. A neighbour
/// that the rank does not hold belongs to another rank.
template <typename Visit>
void for_each_rows(const Resize& resize, Visit visit) {
  const auto& [depth, height, width] = resize.dims;
  const auto visit_pair = [&](int64_t d, int64_t h, int64_t row, float weight) {
    if (weight == 0 || d < 0 || d >= depth.in || h < 0 || h >= height.in) return;
    visit((d * height.in + h) * width.in, row, weight);
  };
  int64_t row = 0;
  for (const Neighbours& d : depth.neighbours)
    for (const Neighbours& h : height.neighbours) {
      visit_pair(d.low, h.low, row, d.low_weight * h.low_weight);
      visit_pair(d.low, h.high, row, d.low_weight * h.high_weight);
      visit_pair(d.high, h.low, row, d.high_weight * h.low_weight);
      visit_pair(d.high, h.high, row, d.high_weight * h.high_weight);
      row += width.out;
    }
}

/// Calls visit(position in the operand's row, position in the result's row, weight) for the
/// elements of a pair of rows.
template <typename Visit>
void for_each_in_row(const ResizedDim& width, Visit visit) {
  for (int64_t place = 0; place < width.out; ++place) {
    const Neighbours& w = width.neighbours[place];
    if (w.low >= 0 && w.low < width.in) visit(w.low, place, w.low_weight);
    if (w.high_weight != 0 && w.high >= 0 && w.high < width.in) visit(w.high, place, w.high_weight);
  }
}

void resize_plane(const Resize& resize, const float* x, float* y) {
  std::fill_n(y, resize.out_size(), 0.0f);
  for_each_rows(resize, [&](int64_t in_row, int64_t out_row, float weight) {
    for_each_in_row(resize.dims[2], [row = x + in_row, out = y + out_row, weight](
                                        int64_t position, int64_t place, float share) {
      out[place] += weight * share * row[position];
    });
  });
}

void spread_plane(const Resize& resize, const float* dy, float* dx) {
  std::fill_n(dx, resize.in_size(), 0.0f);
  for_each_rows(resize, [&](int64_t in_row, int64_t out_row, float weight) {
    for_each_in_row(resize.dims[2], [row = dx + in_row, flow = dy + out_row, weight](
                                        int64_t position, int64_t place, float share) {
      row[position] += weight * share * flow[place];
    });
  });
}

}  // namespace

BoundKernel bind_resize(const LocalCall& call) {
  const auto run =
      [resize = resize_of(call, call.inputs[0], call.outputs[0])](const KernelBuffers& buffers) {
        for (int64_t plane = 0; plane < resize.planes; ++plane)
          resize_plane(resize, input<float>(buffers, 0) + plane * resize.in_size(),
                       output<float>(buffers, 0) + plane * resize.out_size());
      };
  return {run, Bytes(0)};
}

BoundKernel bind_resize_grad(const LocalCall& call) {
  const auto run =
      [resize = resize_of(call, call.outputs[0], call.inputs[0])](const KernelBuffers& buffers) {
        for (int64_t plane = 0; plane < resize.planes; ++plane)
          spread_plane(resize, input<float>(buffers, 0) + plane * resize.out_size(),
                       output<float>(buffers, 0) + plane * resize.in_size());
      };
  return {run, Bytes(0)};
}

namespace {

/// A multiplication and an addition for each element of the larger side and each of its neighbours.
LocalWork work_of(const LocalCall& call, const TensorType& out) {
  const double neighbours = call.text.starts_with("linear") ? std::exp2(out.shape.size() - 2) : 1;
  return work_over_operands(call, OperationClass::kReduction, 2 * neighbours * elements_of(out));
}

}  // namespace

LocalWork work_of_resize(const LocalCall& call) {
  return work_of(call, call.outputs[0]);
}

LocalWork work_of_resize_grad(const LocalCall& call) {
  return work_of(call, call.inputs[0]);
}

}  // namespace tessera
