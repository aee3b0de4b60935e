// constant, iota, broadcast, copy, transpose, slice, pad, concat, chunks: these kernels move or
// create elements and compute none.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/common/strided_copy.h"

namespace tessera {
namespace {

void require_one_element_type(const LocalCall& call) {
  for (const TensorType& type : call.inputs)
    require(call, type.dtype == call.outputs[0].dtype, "all operands have one element type");
}

BoundKernel run_copy(const StridedBox& box, DType dtype) {
  const auto run = [copy = StridedCopy(box, size_of(dtype))](const KernelBuffers& buffers) {
    copy.run(buffers.inputs[0], buffers.outputs[0]);
  };
  return {run, Bytes(0)};
}

// Copies input i by copies[i].
BoundKernel run_copies(std::vector<StridedCopy> copies) {
  const auto run = [copies = std::move(copies)](const KernelBuffers& buffers) {
    for (size_t part = 0; part < copies.size(); ++part)
      copies[part].run(buffers.inputs[part], buffers.outputs[0]);
  };
  return {run, Bytes(0)};
}

template <typename T>
BoundKernel fill_with(T value, int64_t count) {
  return {[value, count](const KernelBuffers& buffers) {
            std::fill_n(output<T>(buffers, 0), count, value);
          },
          Bytes(0)};
}

// The bits of `value` as an element of 4 bytes.
uint32_t element_bits(DType dtype, double value) {
  uint32_t bits = 0;
  if (dtype == DType::kF32) {
    const float number = static_cast<float>(value);
    std::memcpy(&bits, &number, sizeof(bits));
  } else {
    bits = static_cast<uint32_t>(static_cast<int64_t>(value));
  }
  return bits;
}

BoundKernel fill_kernel(DType dtype, double value, int64_t count) {
  if (dtype == DType::kF16) return fill_with(Float16(value).bits, count);
  if (dtype == DType::kBF16) return fill_with(BFloat16(value).bits, count);
  if (dtype == DType::kBool) return fill_with<uint8_t>(value != 0.0, count);
  return fill_with<uint32_t>(element_bits(dtype, value), count);
}

// The output as [outer, extent, inner] around the counted dim.
struct IotaPlan {
  int64_t outer = 1, extent = 1, inner = 1;
  int64_t begin = 0;
};

template <typename T>
BoundKernel run_iota(const IotaPlan& plan) {
  const auto run = [plan](const KernelBuffers& buffers) {
    T* out = output<T>(buffers, 0);
    for (int64_t block = 0; block < plan.outer; ++block)
      for (int64_t i = 0; i < plan.extent; ++i, out += plan.inner)
        std::fill_n(out, plan.inner, static_cast<T>(plan.begin + i));
  };
  return {run, Bytes(0)};
}

// The part of dim `dim` of a padded input that is inside the output: output indices [begin, end).
Range landing(const LocalCall& call, int dim) {
  const int64_t low = call.ints[dim];
  const int64_t extent = call.outputs[0].shape[dim];
  const int64_t begin = std::clamp<int64_t>(low, 0, extent);
  return {begin, std::max(begin, std::min(extent, low + call.inputs[0].shape[dim]))};
}

// A copy between a whole tensor and its chunk `index`, as [outer, blocks, elements of a part].
struct ChunkPlan {
  int64_t outer = 1, blocks = 1, inner = 1;
  int64_t whole_extent = 0, part_extent = 0;  // of the dim

  ChunkPlan(const LocalCall& call, const TensorType& whole, const TensorType& chunk)
      : blocks(call.ints[1]) {
    const int64_t dim = call.ints[0];
    require(call, dim >= 0 && dim < whole.shape.size(), "cuts a dim of its operands");
    Shape expected = whole.shape;
    require(call, chunk.shape.size() == whole.shape.size(), "all operands have as many dims");
    whole_extent = whole.shape[dim];
    part_extent = expected[dim] = chunk.shape[dim];
    require(call, chunk.shape == expected, "whole and chunk differ only in the cut dim");
    require(call, blocks >= 1 && whole_extent % blocks == 0 && part_extent % blocks == 0,
            "the cut dim has as many blocks");
    for (int d = 0; d < whole.shape.size(); ++d) {
      if (d < dim) outer *= whole.shape[d];
      if (d > dim) inner *= whole.shape[d];
    }
  }

  Dims extents() const { return {outer, blocks, part_extent / blocks * inner}; }
  Dims strides_of_whole() const { return {whole_extent * inner, whole_extent / blocks * inner, 1}; }
  Dims strides_of_chunk() const { return {part_extent * inner, part_extent / blocks * inner, 1}; }
  int64_t begin_of(int64_t index) const { return index * (part_extent / blocks) * inner; }
};

}  // namespace

BoundKernel bind_constant(const LocalCall& call) {
  require_operands(call, 0, 1, 0, 1);
  return fill_kernel(call.outputs[0].dtype, call.reals[0], output_count(call));
}

BoundKernel bind_iota(const LocalCall& call) {
  require_operands(call, 0, 1, 2);
  const TensorType& out = call.outputs[0];
  const int64_t counted_dim = call.ints[0];
  require(call, counted_dim >= 0 && counted_dim < out.shape.size(),
          "counts along a dim of the output");
  require(call, out.dtype != DType::kBool, "counts in i32 or f32");
  IotaPlan plan{1, out.shape[counted_dim], 1, call.ints[1]};
  for (int dim = 0; dim < out.shape.size(); ++dim) {
    if (dim < counted_dim) plan.outer *= out.shape[dim];
    if (dim > counted_dim) plan.inner *= out.shape[dim];
  }
  return out.dtype == DType::kF32 ? run_iota<float>(plan) : run_iota<int32_t>(plan);
}

BoundKernel bind_broadcast(const LocalCall& call) {
  require(call, call.inputs.size() == 1, "takes 1 input");
  require_operands(call, 1, 1, call.inputs[0].shape.size());
  require_one_element_type(call);
  const Shape& in = call.inputs[0].shape;
  const Shape& out = call.outputs[0].shape;
  const Dims in_strides = row_major_strides(in);
  StridedBox box{out, Dims::filled(out.size(), 0), row_major_strides(out)};
  int64_t previous = -1;
  for (int dim = 0; dim < in.size(); ++dim) {
    const int64_t to = call.ints[dim];
    require(call, to > previous && to < out.size(), "input dims become output dims in order");
    require(call, in[dim] == out[to] || in[dim] == 1,
            "an input dim has the extent of its output dim, or 1");
    if (in[dim] == out[to]) box.source_strides[to] = in_strides[dim];
    previous = to;
  }
  return run_copy(box, call.outputs[0].dtype);
}

BoundKernel bind_copy(const LocalCall& call) {
  require_operands(call, 1, 1);
  require_one_element_type(call);
  require(call, element_count(call.inputs[0].shape) == output_count(call),
          "input and output have as many elements");
  const auto run = [bytes = byte_size(call.outputs[0]).value()](const KernelBuffers& buffers) {
    const bool in_place = buffers.inputs[0] == buffers.outputs[0];
    if (bytes > 0 && !in_place) std::memcpy(buffers.outputs[0], buffers.inputs[0], bytes);
  };
  return {run, Bytes(0)};
}

BoundKernel bind_transpose(const LocalCall& call) {
  require(call, call.inputs.size() == 1, "takes 1 input");
  const Shape& in = call.inputs[0].shape;
  require_operands(call, 1, 1, in.size());
  require_one_element_type(call);
  const Shape& out = call.outputs[0].shape;
  require(call, out.size() == in.size(), "keeps the number of dims");
  const Dims in_strides = row_major_strides(in);
  StridedBox box{out, {}, row_major_strides(out)};
  std::vector<bool> used(in.size(), false);
  for (int dim = 0; dim < out.size(); ++dim) {
    const int64_t from = call.ints[dim];
    require(call, from >= 0 && from < in.size() && !used[from], "takes a permutation of the dims");
    used[from] = true;
    require(call, out[dim] == in[from], "output dim i is input dim p[i]");
    box.source_strides.push_back(in_strides[from]);
  }
  return run_copy(box, call.outputs[0].dtype);
}

BoundKernel bind_slice(const LocalCall& call) {
  require(call, call.inputs.size() == 1, "takes 1 input");
  const Shape& in = call.inputs[0].shape;
  require_operands(call, 1, 1, 2 * in.size());
  require_one_element_type(call);
  const Shape& out = call.outputs[0].shape;
  require(call, out.size() == in.size(), "keeps the number of dims");
  const Dims in_strides = row_major_strides(in);
  StridedBox box{out, {}, row_major_strides(out)};
  for (int dim = 0; dim < out.size(); ++dim) {
    const int64_t start = call.ints[dim];
    const int64_t stride = call.ints[dim + in.size()];
    const bool inside = out[dim] == 0 || (start >= 0 && start + (out[dim] - 1) * stride < in[dim]);
    require(call, stride >= 1 && inside, "every element of a slice is in the input");
    box.source_begin += start * in_strides[dim];
    box.source_strides.push_back(stride * in_strides[dim]);
  }
  return run_copy(box, call.outputs[0].dtype);
}

BoundKernel bind_pad(const LocalCall& call) {
  require(call, call.inputs.size() == 1, "takes 1 input");
  const Shape& in = call.inputs[0].shape;
  require_operands(call, 1, 1, in.size(), 1);
  require_one_element_type(call);
  const Shape& out = call.outputs[0].shape;
  require(call, out.size() == in.size(), "keeps the number of dims");
  StridedBox box{{}, row_major_strides(in), row_major_strides(out)};
  for (int dim = 0; dim < in.size(); ++dim) {
    const Range inside = landing(call, dim);
    box.extents.push_back(inside.size());
    box.source_begin += (inside.begin - call.ints[dim]) * box.source_strides[dim];
    box.target_begin += inside.begin * box.target_strides[dim];
  }
  const BoundKernel fill = fill_kernel(call.outputs[0].dtype, call.reals[0], output_count(call));
  const BoundKernel place = run_copy(box, call.outputs[0].dtype);
  const auto run = [fill, place](const KernelBuffers& buffers) {
    fill.run(buffers);
    place.run(buffers);
  };
  return {run, Bytes(0)};
}

BoundKernel bind_concat(const LocalCall& call) {
  require_operands(call, call.inputs.size(), 1, 1);
  require_one_element_type(call);
  const Shape& out = call.outputs[0].shape;
  require(call, call.ints[0] >= 0 && call.ints[0] < out.size(), "joins along a dim of the output");
  const int64_t joined = call.ints[0];
  const Dims out_strides = row_major_strides(out);
  std::vector<StridedCopy> copies;
  int64_t begin = 0;
  for (const TensorType& part : call.inputs) {
    Shape expected = out;
    require(call, part.shape.size() == out.size(), "all operands have as many dims");
    expected[joined] = part.shape[joined];
    require(call, part.shape == expected, "parts differ only in the joined dim");
    copies.emplace_back(StridedBox{part.shape, row_major_strides(part.shape), out_strides, 0,
                                   begin * out_strides[joined]},
                        size_of(part.dtype));
    begin += part.shape[joined];
  }
  require(call, begin == out[joined], "the parts fill the output");
  return run_copies(std::move(copies));
}

BoundKernel bind_take_chunk(const LocalCall& call) {
  require_operands(call, 1, 1, 3);
  require_one_element_type(call);
  const ChunkPlan plan(call, call.inputs[0], call.outputs[0]);
  const int64_t index = call.ints[2];
  require(call, index >= 0 && (index + 1) * plan.part_extent <= plan.whole_extent,
          "the input has the chunk");
  return run_copy(
      {plan.extents(), plan.strides_of_whole(), plan.strides_of_chunk(), plan.begin_of(index), 0},
      call.outputs[0].dtype);
}

BoundKernel bind_join_chunks(const LocalCall& call) {
  require_operands(call, call.inputs.size(), 1, 2);
  require_one_element_type(call);
  std::vector<StridedCopy> copies;
  int64_t filled = 0;
  for (const TensorType& chunk : call.inputs) {
    const ChunkPlan plan(call, call.outputs[0], chunk);
    copies.emplace_back(StridedBox{plan.extents(), plan.strides_of_chunk(), plan.strides_of_whole(),
                                   0, filled / plan.blocks * plan.inner},
                        size_of(chunk.dtype));
    filled += plan.part_extent;
    require(call, filled <= plan.whole_extent, "the chunks fit into the output");
  }
  require(call, !call.inputs.empty() && filled == call.outputs[0].shape[call.ints[0]],
          "the chunks fill the output");
  return run_copies(std::move(copies));
}

namespace {

/// The consecutive elements that a copy of `part` out of or into `whole` moves at once.
int64_t run_of(const Shape& part, const Shape& whole) {
  int64_t run = 1;
  for (int dim = part.size() - 1; dim >= 0; --dim) {
    run *= part[dim];
    if (part[dim] != whole[dim]) break;
  }
  return std::max<int64_t>(run, 1);
}

double runs_of(const TensorType& part, const TensorType& whole) {
  return elements_of(part) / static_cast<double>(run_of(part.shape, whole.shape));
}

/// The last dims of the output are one run while all of them repeat the input, or all copy it.
double runs_of_broadcast(const LocalCall& call) {
  const Shape &in = call.inputs[0].shape, &out = call.outputs[0].shape;
  const auto repeats = [&](int dim) {
    const auto found = std::ranges::find(call.ints, dim);
    if (found == call.ints.end()) return true;
    const int source = static_cast<int>(found - call.ints.begin());
    return in[source] == 1 && out[dim] != 1;
  };
  int64_t run = 1;
  for (int dim = out.size() - 1; dim >= 0 && repeats(dim) == repeats(out.size() - 1); --dim)
    run *= out[dim];
  return elements_of(call.outputs[0]) / static_cast<double>(std::max<int64_t>(run, 1));
}

}  // namespace

LocalWork work_of_movement(const LocalCall& call) {
  return work_over_operands(call, OperationClass::kMovement, 0);
}

LocalWork work_of_broadcast(const LocalCall& call) {
  LocalWork work = work_of_movement(call);
  work.pieces = runs_of_broadcast(call);
  return work;
}

/// A transpose that keeps the last dims copies runs; any other one is no sum of pieces.
LocalWork work_of_transpose(const LocalCall& call) {
  LocalWork work = work_of_movement(call);
  int64_t run = 1;
  const Shape& out = call.outputs[0].shape;
  for (int dim = out.size() - 1; dim >= 0 && call.ints[dim] == dim; --dim) run *= out[dim];
  if (run <= 1) return work;
  work.kernel = "transpose.runs";
  work.pieces = elements_of(call.outputs[0]) / static_cast<double>(run);
  return work;
}

LocalWork work_of_joining(const LocalCall& call) {
  LocalWork work = work_of_movement(call);
  work.pieces = 0;
  for (const TensorType& part : call.inputs) work.pieces += runs_of(part, call.outputs[0]);
  return work;
}

LocalWork work_of_slice(const LocalCall& call) {
  LocalWork work = work_of_move(call, OperationClass::kMovement, call.outputs[0]);
  work.pieces = runs_of(call.outputs[0], call.inputs[0]);
  return work;
}

}  // namespace tessera
