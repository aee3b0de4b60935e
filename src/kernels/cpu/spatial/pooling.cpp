// max_pool, average_pool and their gradients, with our own loops.
//
// The maximum of the library begins at the least finite number and drops NaN; ours keeps infinities
// and NaN, as reductions do. A plane of one batch and channel is processed by rows of positions:
// the rows that they read are combined first, element by element, then the elements of the one
// remaining row.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/spatial/spatial.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

/// Three dims of space; leading dims have extent 1 when a call has fewer.
struct Pool {
  int64_t planes = 0;
  std::array<LocalWindow, 3> dims;

  int64_t in_size() const { return dims[0].in * dims[1].in * dims[2].in; }
  int64_t out_size() const { return dims[0].out * dims[1].out * dims[2].out; }
};

Pool pool_of(const LocalCall& call, const TensorType& in, const TensorType& out) {
  const std::vector<LocalWindow> windows = local_windows(call, in, out);
  require(call, in.shape[0] == out.shape[0] && in.shape[1] == out.shape[1],
          "batch and channels stay");
  Pool pool{in.shape[0] * in.shape[1], {}};
  for (LocalWindow& dim : pool.dims) dim.extent = dim.in = dim.out = 1;
  std::copy(windows.begin(), windows.end(), pool.dims.end() - windows.size());
  return pool;
}

/// Calls visit(elements before it in a plane) for each row of the operand that the windows of a row
/// of positions read, in order.
template <typename Visit>
void for_each_row_seen(const Pool& pool, int64_t od, int64_t oh, Visit visit) {
  const auto& [depth, height, width] = pool.dims;
  for (int64_t wd = 0; wd < depth.window; ++wd)
    for (int64_t wh = 0; wh < height.window; ++wh) {
      const int64_t d = depth.first() + od * depth.stride + wd * depth.dilation;
      const int64_t h = height.first() + oh * height.stride + wh * height.dilation;
      if (d >= 0 && d < depth.in && h >= 0 && h < height.in) visit((d * height.in + h) * width.in);
    }
}

/// Calls visit(od, oh, elements before it in a plane) for each row of positions.
template <typename Visit>
void for_each_row_of_places(const Pool& pool, Visit visit) {
  const auto& [depth, height, width] = pool.dims;
  for (int64_t od = 0; od < depth.out; ++od)
    for (int64_t oh = 0; oh < height.out; ++oh) visit(od, oh, (od * height.out + oh) * width.out);
}

/// Calls visit(position in the result's row, position in the operand's row) for all taps of a row,
/// one element of the window after the other.
template <typename Visit>
void for_each_in_row(const LocalWindow& width, Visit visit) {
  for (int64_t w = 0; w < width.window; ++w) {
    const Range places = width.places_of(w);
    const int64_t offset = width.first() + w * width.dilation;
    for (int64_t place = places.begin; place < places.end; ++place)
      visit(place, place * width.stride + offset);
  }
}

// A NaN is greater than every number, and the first of equal elements stays.
bool exceeds(float x, float best) {
  return x > best || (std::isnan(x) && !std::isnan(best));
}

// The operations with which a pooling combines elements. They have no branches, so that rows become
// vector code.

struct Largest {
  static constexpr float kIdentity = -std::numeric_limits<float>::infinity();
  // A NaN stays, because nothing exceeds it.
  static float apply(float best, float x) {
    const float larger = x > best ? x : best;
    return x != x ? x : larger;
  }
};

struct Sum {
  static constexpr float kIdentity = 0;
  static float apply(float sum, float x) { return sum + x; }
};

/// out[i] = combined with x[i * stride].
template <typename Combine>
void combine_row(float* __restrict out, const float* __restrict x, int64_t count, int64_t stride) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = Combine::apply(out[i], x[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = Combine::apply(out[i], x[i * stride]);
  }
}

/// `row` has space for a row of x.
template <typename Combine>
void combine_plane(const Pool& pool, const float* x, float* row, float* y) {
  const LocalWindow& width = pool.dims[2];
  std::fill_n(y, pool.out_size(), Combine::kIdentity);
  for_each_row_of_places(pool, [&](int64_t od, int64_t oh, int64_t out_row) {
    std::fill_n(row, width.in, Combine::kIdentity);
    for_each_row_seen(pool, od, oh,
                      [&](int64_t in_row) { combine_row<Combine>(row, x + in_row, width.in, 1); });
    for (int64_t w = 0; w < width.window; ++w) {
      const Range places = width.places_of(w);
      const int64_t first = width.first() + w * width.dilation + places.begin * width.stride;
      combine_row<Combine>(y + out_row + places.begin, row + first, places.size(), width.stride);
    }
  });
}

/// For each position and dim of the average: 1 / (number of elements of the mean).
class Divisors {
 public:
  Divisors(const Pool& pool, bool counts_padding) {
    for (size_t d = 0; d < 3; ++d)
      for (int64_t place = 0; place < pool.dims[d].out; ++place)
        counts_[d].push_back(counts_padding ? pool.dims[d].window : inside(pool.dims[d], place));
  }

  /// x / number of elements; zero when there are none.
  void divide(const float* x, float* y) const {
    for (const int64_t depth : counts_[0])
      for (const int64_t height : counts_[1])
        for (const int64_t width : counts_[2]) {
          const int64_t count = depth * height * width;
          *y++ = count == 0 ? 0.0f : *x / static_cast<float>(count);
          ++x;
        }
  }

 private:
  // Counts by positions in the whole dim, which the rank need not hold.
  static int64_t inside(const LocalWindow& dim, int64_t place) {
    const int64_t begin = (dim.out_begin + place) * dim.stride - dim.low;
    int64_t count = 0;
    for (int64_t w = 0; w < dim.window; ++w) {
      const int64_t position = begin + w * dim.dilation;
      count += position >= 0 && position < dim.extent ? 1 : 0;
    }
    return count;
  }

  std::array<std::vector<int64_t>, 3> counts_;
};

/// Adds the share of each position to all elements that its window reads. `row` has space for a row
/// of x.
void spread_plane(const Pool& pool, const float* shares, float* row, float* dx) {
  const LocalWindow& width = pool.dims[2];
  std::fill_n(dx, pool.in_size(), 0.0f);
  for_each_row_of_places(pool, [&](int64_t od, int64_t oh, int64_t out_row) {
    std::fill_n(row, width.in, 0.0f);
    for_each_in_row(
        width, [&](int64_t place, int64_t position) { row[position] += shares[out_row + place]; });
    for_each_row_seen(pool, od, oh,
                      [&](int64_t in_row) { combine_row<Sum>(dx + in_row, row, width.in, 1); });
  });
}

/// The position in the plane of x of the largest element of each window: the first of equal ones,
/// -1 in the padding.
void find_largest(const Pool& pool, const float* x, int32_t* largest) {
  std::fill_n(largest, pool.out_size(), -1);
  for_each_row_of_places(pool, [&](int64_t od, int64_t oh, int64_t out_row) {
    for_each_row_seen(pool, od, oh, [&](int64_t in_row) {
      for_each_in_row(pool.dims[2], [&, best = largest + out_row](int64_t place, int64_t position) {
        const auto here = static_cast<int32_t>(in_row + position);
        if (best[place] < 0 || exceeds(x[here], x[best[place]])) best[place] = here;
      });
    });
  });
}

/// The part of a plane whose gradient the rank computes. The rank may hold more of x, to read whole
/// windows.
struct Part {
  std::array<int64_t, 3> begin{}, extent{1, 1, 1};  // begins are positions in the local x

  int64_t size() const { return extent[0] * extent[1] * extent[2]; }
  /// -1 when the element of the plane of x is outside the part, or does not exist.
  int64_t position_of(int64_t in_x, const Pool& pool) const {
    if (in_x < 0) return -1;
    const int64_t height = pool.dims[1].in, width = pool.dims[2].in;
    const std::array<int64_t, 3> index{in_x / width / height, in_x / width % height, in_x % width};
    int64_t position = 0;
    for (size_t d = 0; d < 3; ++d) {
      const int64_t local = index[d] - begin[d];
      if (local < 0 || local >= extent[d]) return -1;
      position = position * extent[d] + local;
    }
    return position;
  }
};

int64_t row_bytes(const Pool& pool) {
  return align_up(pool.dims[2].in * size_of(DType::kF32));
}

Part part_of(const LocalCall& call, const Pool& pool, const TensorType& dx) {
  const TensorType& x = call.inputs[0];
  require(call,
          is_kernel_float(dx.dtype) && dx.shape.size() == x.shape.size() &&
              dx.shape[0] == x.shape[0] && dx.shape[1] == x.shape[1],
          "the gradient has batch and channels of x");
  const size_t count = x.shape.size() - 2;
  Part part;
  for (size_t d = 0; d < count; ++d) {
    const size_t dim = 3 - count + d;
    part.begin[dim] = call.ints[count * kIntsOfWindow + d] - pool.dims[dim].in_begin;
    part.extent[dim] = dx.shape[d + 2];
  }
  return part;
}

/// An operation for each element of each window.
LocalWork pool_work(const LocalCall& call, const Pool& pool) {
  double window = 1;
  for (const LocalWindow& dim : pool.dims) window *= static_cast<double>(dim.window);
  const auto places = static_cast<double>(pool.planes * pool.out_size());
  return work_over_operands(call, OperationClass::kReduction, places * window);
}

}  // namespace

BoundKernel bind_max_pool(const LocalCall& call) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  const Pool pool = pool_of(call, x, y);
  require_operands(call, 1, 1, (x.shape.size() - 2) * kIntsOfWindow);
  const auto run = [pool](const KernelBuffers& buffers) {
    auto* const row = reinterpret_cast<float*>(buffers.workspace);
    for (int64_t plane = 0; plane < pool.planes; ++plane)
      combine_plane<Largest>(pool, input<float>(buffers, 0) + plane * pool.in_size(), row,
                             output<float>(buffers, 0) + plane * pool.out_size());
  };
  return {run, workspace_of_pool(call)};
}

BoundKernel bind_average_pool(const LocalCall& call) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  const Pool pool = pool_of(call, x, y);
  const size_t ints = (x.shape.size() - 2) * kIntsOfWindow;
  require_operands(call, 1, 1, ints + 1);
  const auto run = [pool,
                    divisors = Divisors(pool, call.ints[ints] != 0)](const KernelBuffers& buffers) {
    auto* const row = reinterpret_cast<float*>(buffers.workspace);
    for (int64_t plane = 0; plane < pool.planes; ++plane) {
      float* const out = output<float>(buffers, 0) + plane * pool.out_size();
      combine_plane<Sum>(pool, input<float>(buffers, 0) + plane * pool.in_size(), row, out);
      divisors.divide(out, out);
    }
  };
  return {run, workspace_of_pool(call)};
}

BoundKernel bind_average_pool_grad(const LocalCall& call) {
  const TensorType &dy = call.inputs[0], &dx = call.outputs[0];
  const Pool pool = pool_of(call, dx, dy);
  const size_t ints = (dx.shape.size() - 2) * kIntsOfWindow;
  require_operands(call, 1, 1, ints + 1);
  const auto run = [pool,
                    divisors = Divisors(pool, call.ints[ints] != 0)](const KernelBuffers& buffers) {
    auto* const row = reinterpret_cast<float*>(buffers.workspace);
    auto* const shares = reinterpret_cast<float*>(buffers.workspace + row_bytes(pool));
    for (int64_t plane = 0; plane < pool.planes; ++plane) {
      divisors.divide(input<float>(buffers, 0) + plane * pool.out_size(), shares);
      spread_plane(pool, shares, row, output<float>(buffers, 0) + plane * pool.in_size());
    }
  };
  return {run, workspace_of_average_pool_grad(call)};
}

BoundKernel bind_max_pool_grad(const LocalCall& call) {
  const TensorType &x = call.inputs[0], &dy = call.inputs[1], &dx = call.outputs[0];
  const Pool pool = pool_of(call, x, dy);
  const size_t count = x.shape.size() - 2;
  require_operands(call, 2, 1, count * (kIntsOfWindow + 1));
  require(call, pool.in_size() <= std::numeric_limits<int32_t>::max(),
          "a plane has fewer than 2^31 elements");
  const Part part = part_of(call, pool, dx);
  const auto run = [pool, part](const KernelBuffers& buffers) {
    auto* const largest = reinterpret_cast<int32_t*>(buffers.workspace);
    for (int64_t plane = 0; plane < pool.planes; ++plane) {
      find_largest(pool, input<float>(buffers, 0) + plane * pool.in_size(), largest);
      const float* const flow = input<float>(buffers, 1) + plane * pool.out_size();
      float* const made = output<float>(buffers, 0) + plane * part.size();
      std::fill_n(made, part.size(), 0.0f);
      for (int64_t place = 0; place < pool.out_size(); ++place)
        if (const int64_t position = part.position_of(largest[place], pool); position >= 0)
          made[position] += flow[place];
    }
  };
  return {run, workspace_of_max_pool_grad(call)};
}

LocalWork work_of_pool(const LocalCall& call) {
  return pool_work(call, pool_of(call, call.inputs[0], call.outputs[0]));
}

LocalWork work_of_max_pool_grad(const LocalCall& call) {
  return pool_work(call, pool_of(call, call.inputs[0], call.inputs[1]));
}

LocalWork work_of_average_pool_grad(const LocalCall& call) {
  return pool_work(call, pool_of(call, call.outputs[0], call.inputs[0]));
}

Bytes workspace_of_pool(const LocalCall& call) {
  return Bytes(row_bytes(pool_of(call, call.inputs[0], call.outputs[0])));
}

Bytes workspace_of_max_pool_grad(const LocalCall& call) {
  const Pool pool = pool_of(call, call.inputs[0], call.inputs[1]);
  return Bytes(align_up(pool.out_size() * size_of(DType::kI32)));
}

Bytes workspace_of_average_pool_grad(const LocalCall& call) {
  const Pool pool = pool_of(call, call.outputs[0], call.inputs[0]);
  return Bytes(row_bytes(pool) + align_up(pool.out_size() * size_of(DType::kF32)));
}

}  // namespace tessera
