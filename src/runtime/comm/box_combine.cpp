#include "runtime/comm/box_combine.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "base/tensor/element.h"
#include "base/tensor/narrow_float.h"
#include "base/tensor/reduce.h"
#include "runtime/comm/internal/streamed_sum.h"

namespace tessera {
namespace {

/// The elements of a piece of a row: 16 KiB of f32, half of a typical first-level cache.
constexpr int64_t kPiece = 4096;
/// The elements of f16 or bf16 that are combined in f32 at a time: two buffers of 4 KiB.
constexpr int64_t kNarrowPiece = 1024;

bool is_narrow(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

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

/// Advances to the next index of all dims but the last `inner` ones; false after the last one.
bool next_index(Dims& index, const Dims& extents, int inner) {
  for (int d = extents.size() - 1 - inner; d >= 0; --d) {
    if (++index[d] < extents[d]) return true;
    index[d] = 0;
  }
  return false;
}

/// The types whose reductions have kernels. All other types are only copied.
bool has_reductions(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kBool || is_narrow(dtype);
}

[[noreturn]] void refuse_reduction(DType dtype) {
  const std::string type(to_text(dtype));
  throw UserError("parts of a partial value of type " + type + " cannot be combined",
                  "reductions have kernels for f32, f16, bf16, i32 and bool; " + type +
                      " is only stored and moved",
                  "convert the value to f32 or i32 before it is reduced across ranks",
                  ExitCode::kBadConfig);
}

}  // namespace

template <typename T>
void BoxCombine::copy_row(Row target, ConstRow source, int64_t count) {
  if (target.stride == 1 && source.stride == 1) {
    std::memcpy(target.data, source.data, count * sizeof(T));
    return;
  }
  T* to = reinterpret_cast<T*>(target.data);
  const T* from = reinterpret_cast<const T*>(source.data);
  for (int64_t i = 0; i < count; ++i) to[i * target.stride] = from[i * source.stride];
}

/// Rows of a few elements, as the halos of small images are, take less than a call of memcpy.
template <typename T>
void BoxCombine::copy_rows(Row target, ConstRow source, int64_t rows, int64_t count) {
  constexpr int64_t kShort = 64 / sizeof(T);
  T* to = reinterpret_cast<T*>(target.data);
  const T* from = reinterpret_cast<const T*>(source.data);
  for (int64_t row = 0; row < rows; ++row, to += target.stride, from += source.stride) {
    if (count > kShort) {
      std::memcpy(to, from, count * sizeof(T));
      continue;
    }
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

template <typename T, ReduceOp kOp>
void BoxCombine::reduce_rows(Row target, ConstRow first, ConstRow second, int64_t count) {
  T* to = reinterpret_cast<T*>(target.data);
  const T* a = reinterpret_cast<const T*>(first.data);
  const T* b = reinterpret_cast<const T*>(second.data);
  if (target.stride != 1 || first.stride != 1 || second.stride != 1) {
    for (int64_t i = 0; i < count; ++i)
      to[i * target.stride] = combine<kOp>(a[i * first.stride], b[i * second.stride]);
  } else if (to == a) {  // the compiler vectorizes each of these loops
    for (int64_t i = 0; i < count; ++i) to[i] = combine<kOp>(to[i], b[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = combine<kOp>(a[i], b[i]);
  }
}

template <typename T>
void BoxCombine::widen_row(ConstRow source, float* out, int64_t count) {
  const T* from = reinterpret_cast<const T*>(source.data);
  for (int64_t i = 0; i < count; ++i) out[i] = to_float(from[i * source.stride]);
}

template <typename T>
void BoxCombine::round_row(const float* x, Row target, int64_t count) {
  T* to = reinterpret_cast<T*>(target.data);
  for (int64_t i = 0; i < count; ++i) to[i * target.stride] = round_to<T>(x[i]);
}

template <typename RowOf>
void BoxCombine::reduce_narrow(Row target, const RowOf& row_of, int64_t count) const {
  float sum[kNarrowPiece], next[kNarrowPiece];
  const Row to{reinterpret_cast<std::byte*>(sum), 1};
  const ConstRow before{to.data, 1}, term{reinterpret_cast<const std::byte*>(next), 1};
  widen_(row_of(sources_[0]), sum, count);
  for (size_t i = 1; i < sources_.size(); ++i) {
    widen_(row_of(sources_[i]), next, count);
    reduce_(to, before, term, count);
  }
  round_(sum, target, count);
}

void BoxCombine::stream_rows(Row target, ConstRow first, ConstRow second, int64_t count) {
  stream_sum(reinterpret_cast<float*>(target.data), reinterpret_cast<const float*>(first.data),
             reinterpret_cast<const float*>(second.data), count);
}

/// Is it a sum of two dense sources whose rows are so long that the ends of vectors cost little?
bool BoxCombine::may_stream() const {
  constexpr int64_t kLongRow = 4096;
  const int last = extents_.size() - 1;
  const auto is_dense = [last](const Layout& layout) { return layout.strides[last] == 1; };
  return dtype_ == DType::kF32 && reduce_ == reduce_rows<float, ReduceOp::kSum> &&
         sources_.size() == 2 && extents_[last] >= kLongRow &&
         element_count(extents_) * size_of(dtype_) >= kStreamedBytes && is_dense(target_) &&
         is_dense(sources_[0].layout) && is_dense(sources_[1].layout);
}

/// Is it a copy of rows that are dense on both sides?
bool BoxCombine::copies_dense_rows() const {
  const int last = extents_.size() - 1;
  return sources_.size() == 1 && last >= 1 && target_.strides[last] == 1 &&
         sources_[0].layout.strides[last] == 1;
}

/// The reduction; nullptr when the type does not have it: bool has the logical ones, numbers have
/// the others.
BoxCombine::ReduceFunction BoxCombine::reduce_function(DType dtype, ReduceOp reduce) {
  return visit_reduce_op(reduce, [dtype](auto op) -> ReduceFunction {
    if constexpr (traits(op.value).is_logical) {
      return dtype == DType::kBool ? reduce_rows<uint8_t, op.value> : nullptr;
    } else {
      if (dtype == DType::kF32 || is_narrow(dtype)) return reduce_rows<float, op.value>;
      return dtype == DType::kI32 ? reduce_rows<int32_t, op.value> : nullptr;
    }
  });
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

BoxCombine::CopyRowsFunction BoxCombine::copy_rows_function(int64_t element_size) {
  switch (element_size) {
    case 1: return copy_rows<uint8_t>;
    case 2: return copy_rows<uint16_t>;
    case 4: return copy_rows<float>;
    case 8: return copy_rows<double>;
    default: throw InternalError("no element has such a size");
  }
}

BoxCombine::BoxCombine(DType dtype, ReduceOp reduce, const Box& box, const Box& target_holds)
    : dtype_(dtype),
      box_(box),
      copy_(copy_function(size_of(dtype))),
      copy_rows_(copy_rows_function(size_of(dtype))),
      reduce_(reduce_function(dtype, reduce)),
      extents_(box.shape()) {
  target_ = layout_in(target_holds);
  if (dtype == DType::kF16) {
    widen_ = widen_row<Float16>;
    round_ = round_row<Float16>;
  } else if (dtype == DType::kBF16) {
    widen_ = widen_row<BFloat16>;
    round_ = round_row<BFloat16>;
  }
}

BoxCombine::Layout BoxCombine::layout_in(const Box& holds) const {
  ensure(!box_.empty() && intersect(holds, box_) == box_,
         "a box is inside the tensor that it is taken from");
  Layout layout{row_major_strides(holds.shape()), 0};
  for (int d = 0; d < layout.strides.size(); ++d) {
    layout.offset += (box_.ranges[d].begin - holds.ranges[d].begin) * layout.strides[d];
  }
  return layout;
}

void BoxCombine::add_source(size_t index, const Box& holds) {
  sources_.push_back({index, layout_in(holds)});
  if (sources_.size() == 1) return;  // a copy needs no reduction
  if (!has_reductions(dtype_)) refuse_reduction(dtype_);
  ensure(reduce_ != nullptr, "contributions have a reduction of their element type");
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
    extents_ = {1};  // one element is a row, too
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
  const bool is_combined_wide = widen_ != nullptr && sources_.size() > 1;
  const int64_t step = is_combined_wide       ? kNarrowPiece
                       : sources_.size() <= 2 ? extents_[last]
                                              : kPiece;
  for (int64_t begin = 0; begin < extents_[last]; begin += step) {
    const int64_t count = std::min(step, extents_[last] - begin);
    const Row to{target + piece(target_, begin), target_.strides[last]};
    if (is_combined_wide) {
      reduce_narrow(to, [&](const Source& source) { return row_of(source, begin); }, count);
      continue;
    }
    ConstRow sum = row_of(sources_[0], begin);
    if (sources_.size() == 1) copy_(to, sum, count);
    for (size_t i = 1; i < sources_.size(); ++i) {
      reduce_(to, sum, row_of(sources_[i], begin), count);
      sum = {to.data, to.stride};
    }
  }
}

void BoxCombine::run_rows(std::byte* target, const std::byte* source, const Dims& index) const {
  const int last = extents_.size() - 1;
  const int64_t bytes = size_of(dtype_);
  const Layout& from = sources_[0].layout;
  copy_rows_(
      {target + bytes * flat_offset(index, target_.strides, target_.offset),
       target_.strides[last - 1]},
      {source + bytes * flat_offset(index, from.strides, from.offset), from.strides[last - 1]},
      extents_[last - 1], extents_[last]);
}

void BoxCombine::run(std::byte* target, std::span<const std::byte* const> sources) const {
  Dims index = Dims::filled(extents_.size(), 0);
  if (copies_dense_rows()) {
    const std::byte* source = sources[sources_[0].index];
    do run_rows(target, source, index);
    while (next_index(index, extents_, 2));
    return;
  }
  do run_row(target, sources, index);
  while (next_index(index, extents_, 1));
}

void fill_with_identity(DType dtype, ReduceOp reduce, std::byte* data, int64_t count) {
  visit_element(dtype, [&]<typename E>(E) {
    using T = typename E::Stored;
    if constexpr (std::is_arithmetic_v<T>)
      std::fill_n(reinterpret_cast<T*>(data), count, identity_of<T>(reduce));
    else
      std::fill_n(reinterpret_cast<T*>(data), count, E::nearest(identity_of<double>(reduce)));
  });
}

}  // namespace tessera
