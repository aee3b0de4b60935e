#include "copy/box_combine.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "copy/streamed_sum.h"

namespace tessera {
namespace {

/// Elements of a piece of a row: 16 KiB of f32, half of a usual first-level cache.
constexpr int64_t kPiece = 4096;

int64_t flat_offset(const Dims& index, const Dims& strides, int64_t start) {
  for (int d = 0; d < index.size(); ++d) start += index[d] * strides[d];
  return start;
}

Dims without(const Dims& dims, int dim) {
  Dims rest;
  for (int d = 0; d < dims.size(); ++d)
    if (d != dim) rest.push_back(dims[d]);
  return rest;
}

/// Steps to the next index of all dims but the last; false after the last.
bool next_row(Dims& index, const Dims& extents) {
  for (int d = extents.size() - 2; d >= 0; --d) {
    if (++index[d] < extents[d]) return true;
    index[d] = 0;
  }
  return false;
}

struct Add {
  float operator()(float a, float b) const { return a + b; }
  int32_t operator()(int32_t a, int32_t b) const {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};
struct Multiply {
  float operator()(float a, float b) const { return a * b; }
  int32_t operator()(int32_t a, int32_t b) const {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
  }
};
/// The larger one; what is not a number stays, wherever it stands.
struct Larger {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b || b != b ? b : a;
  }
};
struct Smaller {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};
struct Or {
  uint8_t operator()(uint8_t a, uint8_t b) const { return a | b; }
};
struct And {
  uint8_t operator()(uint8_t a, uint8_t b) const { return a & b; }
};

[[noreturn]] void no_reduction(DType dtype, ReduceOp reduce) {
  throw InternalError("no reduction " + std::string(to_text(reduce)) + " of " +
                      std::string(to_text(dtype)));
}

template <typename T>
T identity(ReduceOp reduce) {
  constexpr bool has_infinity = std::numeric_limits<T>::has_infinity;
  switch (reduce) {
    case ReduceOp::kProd:
    case ReduceOp::kAll: return T{1};
    case ReduceOp::kMax:
      return has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    case ReduceOp::kMin:
      return has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
    case ReduceOp::kSum:
    case ReduceOp::kAny: return T{0};
  }
  throw InternalError("unknown reduction");
}

template <typename T>
void fill(ReduceOp reduce, std::byte* data, int64_t count) {
  std::fill_n(reinterpret_cast<T*>(data), count, identity<T>(reduce));
}

}  // namespace

template <typename T>
void BoxCombine::copy_row(Row target, ConstRow source, int64_t count) {
  if (target.stride == 1 && source.stride == 1) {
    std::memcpy(target.data, source.data, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  T* to = reinterpret_cast<T*>(target.data);
  const T* from = reinterpret_cast<const T*>(source.data);
  for (int64_t i = 0; i < count; ++i) to[i * target.stride] = from[i * source.stride];
}

template <typename T, typename Combine>
void BoxCombine::reduce_rows(Row target, ConstRow first, ConstRow second, int64_t count) {
  T* to = reinterpret_cast<T*>(target.data);
  const T* a = reinterpret_cast<const T*>(first.data);
  const T* b = reinterpret_cast<const T*>(second.data);
  const Combine combine;
  if (target.stride != 1 || first.stride != 1 || second.stride != 1) {
    for (int64_t i = 0; i < count; ++i)
      to[i * target.stride] = combine(a[i * first.stride], b[i * second.stride]);
  } else if (to == a) {  // loops of their own, which the compiler turns into vector code
    for (int64_t i = 0; i < count; ++i) to[i] = combine(to[i], b[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = combine(a[i], b[i]);
  }
}

void BoxCombine::stream_rows(Row target, ConstRow first, ConstRow second, int64_t count) {
  stream_sum(reinterpret_cast<float*>(target.data), reinterpret_cast<const float*>(first.data),
             reinterpret_cast<const float*>(second.data), count);
}

/// Two dense addends, with rows that make a vector's start and end cheap.
bool BoxCombine::may_stream() const {
  constexpr int64_t kLongRow = 4096;
  const int last = extents_.size() - 1;
  const auto is_dense = [last](const Layout& layout) { return layout.strides[last] == 1; };
  return reduce_ == reduce_rows<float, Add> && sources_.size() == 2 && extents_[last] >= kLongRow &&
         element_count(extents_) * size_of(dtype_) >= kStreamedBytes && is_dense(target_) &&
         is_dense(sources_[0].layout) && is_dense(sources_[1].layout);
}

BoxCombine::ReduceFunction BoxCombine::reduce_function(DType dtype, ReduceOp reduce) {
  if (dtype == DType::kBool) {
    if (reduce == ReduceOp::kAny) return reduce_rows<uint8_t, Or>;
    if (reduce == ReduceOp::kAll) return reduce_rows<uint8_t, And>;
    no_reduction(dtype, reduce);
  }
  const bool is_f32 = dtype == DType::kF32;
  switch (reduce) {
    case ReduceOp::kSum: return is_f32 ? reduce_rows<float, Add> : reduce_rows<int32_t, Add>;
    case ReduceOp::kProd:
      return is_f32 ? reduce_rows<float, Multiply> : reduce_rows<int32_t, Multiply>;
    case ReduceOp::kMax: return is_f32 ? reduce_rows<float, Larger> : reduce_rows<int32_t, Larger>;
    case ReduceOp::kMin:
      return is_f32 ? reduce_rows<float, Smaller> : reduce_rows<int32_t, Smaller>;
    case ReduceOp::kAny:
    case ReduceOp::kAll: no_reduction(dtype, reduce);
  }
  throw InternalError("unknown reduction");
}

BoxCombine::CopyFunction BoxCombine::copy_function(int64_t element_size) {
  switch (element_size) {
    case 1: return copy_row<uint8_t>;
    case 2: return copy_row<uint16_t>;
    case 4: return copy_row<float>;
    case 8: return copy_row<double>;
    default: throw InternalError("no element has such a size");
  }
}

BoxCombine::BoxCombine(DType dtype, ReduceOp reduce, const Box& box, const Box& target_holds)
    : dtype_(dtype),
      box_(box),
      copy_(copy_function(size_of(dtype))),
      reduce_(nullptr),
      extents_(box.shape()) {
  // A copy has no reduction: bool has no sum, and copies come with one by default.
  const bool is_arithmetic = reduce != ReduceOp::kAny && reduce != ReduceOp::kAll;
  const bool has_reductions = dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kBool;
  if (has_reductions && is_arithmetic != (dtype == DType::kBool))
    reduce_ = reduce_function(dtype, reduce);
  target_ = layout_in(target_holds);
}

BoxCombine::Layout BoxCombine::layout_in(const Box& holds) const {
  ensure(!box_.empty() && intersect(holds, box_) == box_,
         "a box lies inside the tensor that it is taken from");
  Layout layout{row_major_strides(holds.shape()), 0};
  for (int d = 0; d < layout.strides.size(); ++d) {
    const auto dim = static_cast<size_t>(d);
    layout.offset += (box_.ranges[dim].begin - holds.ranges[dim].begin) * layout.strides[d];
  }
  return layout;
}

void BoxCombine::add_source(size_t index, const Box& holds) {
  sources_.push_back({index, layout_in(holds)});
  ensure(sources_.size() == 1 || reduce_ != nullptr,
         "contributions have a reduction of their element type");
}

bool BoxCombine::has_even_strides(const Layout& layout, int dim) const {
  return layout.strides[dim] == extents_[dim + 1] * layout.strides[dim + 1];
}

bool BoxCombine::can_join(int dim) const {
  return has_even_strides(target_, dim) &&
         std::all_of(sources_.begin(), sources_.end(),
                     [&](const Source& source) { return has_even_strides(source.layout, dim); });
}

void BoxCombine::erase_dim(int dim) {
  extents_ = without(extents_, dim);
  target_.strides = without(target_.strides, dim);
  for (Source& source : sources_) source.layout.strides = without(source.layout.strides, dim);
}

void BoxCombine::join_dims() {
  for (int d = extents_.size() - 1; d >= 0; --d)
    if (extents_[d] == 1) erase_dim(d);
  for (int d = extents_.size() - 2; d >= 0; --d) {
    if (!can_join(d)) continue;
    extents_[d + 1] *= extents_[d];
    erase_dim(d);
  }
  if (extents_.empty()) {
    extents_ = {1};  // one element: a row all the same
    target_.strides = {1};
    for (Source& source : sources_) source.layout.strides = {1};
  }
  if (may_stream()) reduce_ = stream_rows;
}

void BoxCombine::run_row(std::byte* target, std::span<const std::byte* const> sources,
                         const Dims& index) const {
  const int last = extents_.size() - 1;
  const int64_t bytes = size_of(dtype_);
  const auto piece = [&](const Layout& layout, int64_t begin) {
    return bytes *
           (flat_offset(index, layout.strides, layout.offset) + begin * layout.strides[last]);
  };
  const auto row_of = [&](const Source& source, int64_t begin) {
    return ConstRow{sources[source.index] + piece(source.layout, begin),
                    source.layout.strides[last]};
  };
  const int64_t step = sources_.size() <= 2 ? extents_[last] : kPiece;
  for (int64_t begin = 0; begin < extents_[last]; begin += step) {
    const int64_t count = std::min(step, extents_[last] - begin);
    const Row to{target + piece(target_, begin), target_.strides[last]};
    ConstRow sum = row_of(sources_[0], begin);
    if (sources_.size() == 1) copy_(to, sum, count);
    for (size_t i = 1; i < sources_.size(); ++i) {
      reduce_(to, sum, row_of(sources_[i], begin), count);
      sum = {to.data, to.stride};
    }
  }
}

void BoxCombine::run(std::byte* target, std::span<const std::byte* const> sources) const {
  Dims index = Dims::filled(extents_.size(), 0);
  do run_row(target, sources, index);
  while (next_row(index, extents_));
}

void fill_with_identity(DType dtype, ReduceOp reduce, std::byte* data, int64_t count) {
  switch (dtype) {
    case DType::kF32: return fill<float>(reduce, data, count);
    case DType::kI32: return fill<int32_t>(reduce, data, count);
    case DType::kBool: return fill<uint8_t>(reduce, data, count);
    default: no_reduction(dtype, reduce);
  }
}

}  // namespace tessera
