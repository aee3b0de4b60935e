// PreparedConvolution by oneDNN.
//
// The library computes in blocked layouts of its choice, so the operands are copied into these
// layouts and the result is copied out of them. A part of a divided operand can have negative
// padding. It is removed from the operand first, so the library gets the positions that a window
// reads.
#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/tensor/tensor.h"
#include "kernels/cpu/common/openmp.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/spatial/convolution.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace tessera {
namespace {

using dnnl::memory;
using Extents = memory::dims;

constexpr auto kF32 = memory::data_type::f32;

/// Sets the number of threads to one. The library divides its work by the number of threads at the
/// time of preparation, on any thread.
class OneThread {
 public:
  OneThread() : before_(openmp_threads()) { set_openmp_threads(1); }
  ~OneThread() { set_openmp_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// The positions of one dim that windows read, and the padding that they read around them.
struct Seen {
  Range positions;
  int64_t low, high;
};

Seen seen_of(const LocalWindow& dim) {
  const int64_t first = dim.first(), reach = (dim.window - 1) * dim.dilation + 1;
  const int64_t end = first + (dim.out - 1) * dim.stride + reach;
  const Range positions{std::clamp<int64_t>(first, 0, dim.in), std::clamp<int64_t>(end, 0, dim.in)};
  return {positions, positions.begin - first, end - positions.end};
}

struct Geometry {
  Extents x, w, y;           // w with a leading dim of groups when there are several
  Extents whole_x, x_begin;  // of the local operand: the part that is read begins at x_begin
  Extents strides, dilations, low, high;  // the library counts a dilation from 0

  explicit Geometry(const ConvolutionShape& shape)
      : x{shape.batch, shape.groups * shape.in},
        w{shape.out, shape.in},
        y{shape.batch, shape.groups * shape.out},
        whole_x(x),
        x_begin{0, 0} {
    if (shape.groups > 1) w.insert(w.begin(), shape.groups);
    for (const LocalWindow& dim : shape.dims) {
      const Seen seen = seen_of(dim);
      x.push_back(seen.positions.size());
      whole_x.push_back(dim.in);
      x_begin.push_back(seen.positions.begin);
      w.push_back(dim.window);
      y.push_back(dim.out);
      strides.push_back(dim.stride);
      dilations.push_back(dim.dilation - 1);
      low.push_back(seen.low);
      high.push_back(seen.high);
    }
  }
};

memory::desc any_layout(const Extents& extents) {
  return {extents, kF32, memory::format_tag::any};
}

memory::desc dense_layout(const Extents& extents) {
  Extents strides(extents.size(), 1);
  for (size_t d = extents.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * extents[d];
  return {extents, kF32, strides};
}

int64_t round_up(int64_t extent) {
  constexpr int64_t kLargestBlock = 16;
  return (extent + kLargestBlock - 1) / kLargestBlock * kLargestBlock;
}

int64_t product(const Extents& extents, size_t from) {
  int64_t result = 1;
  for (size_t d = from; d < extents.size(); ++d) result *= extents[d];
  return result;
}

/// The largest size of an image in any layout: channels are in blocks of up to 16.
int64_t max_bytes_of_image(const Extents& extents) {
  return 4 * extents[0] * round_up(extents[1]) * product(extents, 2);
}

/// The same for weights, of which both channels, or the groups, are in blocks.
int64_t max_bytes_of_weights(const ConvolutionShape& shape, const Extents& extents) {
  const int64_t window = product(extents, shape.groups > 1 ? 3 : 2);
  const int64_t by_channels = shape.groups * round_up(shape.out) * round_up(shape.in);
  return 4 * window * std::max(by_channels, round_up(shape.groups) * shape.out * shape.in);
}

/// The largest bytes of x, w and y in any layout. A part with fewer channels, for which the library
/// may choose another layout, never needs more.
std::array<int64_t, 3> max_bytes(const ConvolutionShape& shape, const Geometry& geometry) {
  return {align_up(max_bytes_of_image(geometry.whole_x)),
          align_up(max_bytes_of_weights(shape, geometry.w)),
          align_up(max_bytes_of_image(geometry.y))};
}

/// Memory of the caller, which is set for each run.
dnnl::memory unset_memory(const memory::desc& layout, const dnnl::engine& engine) {
  return {layout, engine, DNNL_MEMORY_NONE};
}

void point_to(dnnl::memory& tensor, const void* data) {
  // Setting a pointer may clear the padding of blocks, so it is set only when it differs.
  if (tensor.get_data_handle() != data) tensor.set_data_handle(const_cast<void*>(data));
}

/// A tensor in the layout of the caller and in the layout of the library, with a copy between the
/// two where they differ.
struct Operand {
  dnnl::memory given, wanted;
  int64_t offset = 0;  // offset of the library's layout in the workspace
  dnnl::primitive copy;

  bool copied() const { return static_cast<bool>(copy); }
  const dnnl::memory& used() const { return copied() ? wanted : given; }
};

template <size_t kCount>
void execute(const dnnl::primitive& primitive, const dnnl::stream& stream,
             const std::array<dnnl_exec_arg_t, kCount>& arguments) {
  const dnnl_status_t status = dnnl_primitive_execute(primitive.get(), stream.get(),
                                                      static_cast<int>(kCount), arguments.data());
  ensure(status == dnnl_success, "oneDNN refused a convolution");
}

constexpr size_t kX = 0, kW = 1, kY = 2;

size_t index_of(ConvolutionResult result) {
  return result == ConvolutionResult::kX ? kX : result == ConvolutionResult::kW ? kW : kY;
}

/// The names of the three tensors in the library.
std::array<int, 3> arguments_of(ConvolutionResult result) {
  switch (result) {
    case ConvolutionResult::kY: return {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    case ConvolutionResult::kX: return {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
    case ConvolutionResult::kW: return {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
  }
  throw InternalError("unknown result of a convolution");
}

}  // namespace

struct PreparedConvolution::Parts {
  Parts(const ConvolutionShape& shape, ConvolutionResult wanted)
      : result(index_of(wanted)), names(arguments_of(wanted)), geometry(shape) {
    const OneThread guard;
    prepare(wanted);
    place(shape);
  }

  void prepare(ConvolutionResult wanted) {
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const Geometry& g = geometry;
    const memory::desc x = any_layout(g.x), w = any_layout(g.w), y = any_layout(g.y);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kDirect, x, w, y, g.strides, g.dilations, g.low,
         g.high},
        attributes, engine);
    if (wanted == ConvolutionResult::kY) {
      primitive = dnnl::convolution_forward(forward);
      adopt(forward, forward.src_desc(), forward.weights_desc(), forward.dst_desc());
    } else if (wanted == ConvolutionResult::kX) {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {kDirect, x, w, y, g.strides, g.dilations, g.low, g.high}, attributes, engine, forward);
      primitive = dnnl::convolution_backward_data(backward);
      adopt(backward, backward.diff_src_desc(), backward.weights_desc(), backward.diff_dst_desc());
    } else {
      const dnnl::convolution_backward_weights::primitive_desc backward(
          {kDirect, x, w, y, g.strides, g.dilations, g.low, g.high}, attributes, engine, forward);
      primitive = dnnl::convolution_backward_weights(backward);
      adopt(backward, backward.src_desc(), backward.diff_weights_desc(), backward.diff_dst_desc());
    }
  }

  void adopt(const dnnl::primitive_desc_base& description, const memory::desc& x,
             const memory::desc& w, const memory::desc& y) {
    operands[kX].wanted = unset_memory(x, engine);
    operands[kW].wanted = unset_memory(w, engine);
    operands[kY].wanted = unset_memory(y, engine);
    const memory::desc layout = description.scratchpad_desc();
    scratch = AlignedBuffer(Bytes(static_cast<int64_t>(layout.get_size())));
    scratch_memory = dnnl::memory(layout, engine, scratch.data());
  }

  /// Reserves space for all three.
  void place(const ConvolutionShape& shape) {
    const std::array given{
        dense_layout(geometry.whole_x).submemory_desc(geometry.x, geometry.x_begin),
        dense_layout(geometry.w), dense_layout(geometry.y)};
    const std::array<int64_t, 3> largest = max_bytes(shape, geometry);
    int64_t offset = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      Operand& operand = operands[i];
      const memory::desc wanted = operand.wanted.get_desc();
      operand.given = unset_memory(given[i], engine);
      operand.offset = offset;
      offset += largest[i];
      ensure(static_cast<int64_t>(wanted.get_size()) <= largest[i],
             "the library's layout is larger than its blocks explain");
      if (given[i] == wanted) continue;
      const memory::desc &from = i == result ? wanted : given[i],
                         &to = i == result ? given[i] : wanted;
      operand.copy = dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to));
    }
  }

  /// Sets the gradient of elements of x that no window reads to zero.
  void clear_unseen(float* made) const {
    if (result == kX && geometry.x != geometry.whole_x)
      std::fill_n(made, product(geometry.whole_x, 0), 0.0f);
  }

  void copy(size_t i) const {
    const Operand& operand = operands[i];
    if (!operand.copied()) return;
    const bool out = i == result;
    execute<2>(operand.copy, stream,
               {{{DNNL_ARG_FROM, (out ? operand.wanted : operand.given).get()},
                 {DNNL_ARG_TO, (out ? operand.given : operand.wanted).get()}}});
  }

  void run(const std::array<const void*, 3>& data, std::byte* space) {
    for (size_t i = 0; i < operands.size(); ++i) {
      point_to(operands[i].given, data[i]);
      if (operands[i].copied()) point_to(operands[i].wanted, space + operands[i].offset);
      if (i != result) copy(i);
    }
    execute<4>(primitive, stream,
               {{{names[kX], operands[kX].used().get()},
                 {names[kW], operands[kW].used().get()},
                 {names[kY], operands[kY].used().get()},
                 {DNNL_ARG_SCRATCHPAD, scratch_memory.get()}}});
    copy(result);
  }

  size_t result;
  std::array<int, 3> names;
  Geometry geometry;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive primitive;
  std::array<Operand, 3> operands;  // x, w, y
  AlignedBuffer scratch;
  dnnl::memory scratch_memory;
};

Bytes convolution_workspace(const ConvolutionShape& shape) {
  const auto [x, w, y] = max_bytes(shape, Geometry(shape));
  return Bytes(x + w + y);
}

PreparedConvolution::PreparedConvolution(const ConvolutionShape& shape, ConvolutionResult result)
    : parts_(std::make_unique<Parts>(shape, result)) {}

PreparedConvolution::~PreparedConvolution() = default;

void PreparedConvolution::run(const float* a, const float* b, float* made, std::byte* workspace) {
  std::array<const void*, 3> data{};
  const float* given[] = {a, b};
  size_t next = 0;
  for (size_t i = 0; i < data.size(); ++i) data[i] = i == parts_->result ? made : given[next++];
  // The gradient of the input is given y before w.
  if (parts_->result == kX) std::swap(data[kW], data[kY]);
  parts_->clear_unseen(made);
  parts_->run(data, workspace);
}

}  // namespace tessera
