#include "kernels/cpu/common/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/common/odometer.h"

namespace tessera {
namespace {

// The edge of the square blocks in which a matrix is transposed. The cache lines of a block stay in
// the first-level cache.
constexpr int64_t kBlock = 16;

void push_dim(StridedBox& box, int64_t extent, int64_t source_stride, int64_t target_stride) {
  box.extents.push_back(extent);
  box.source_strides.push_back(source_stride);
  box.target_strides.push_back(target_stride);
}

// Removes the dims of extent 1, and merges each dim with the one before it where memory continues
// in both layouts.
StridedBox merged(const StridedBox& box) {
  StridedBox result{{}, {}, {}, box.source_begin, box.target_begin};
  for (int dim = 0; dim < box.extents.size(); ++dim) {
    const int64_t extent = box.extents[dim];
    if (extent == 1) continue;
    const int last = result.extents.size() - 1;
    const bool runs_on = last >= 0 &&
                         result.source_strides[last] == box.source_strides[dim] * extent &&
                         result.target_strides[last] == box.target_strides[dim] * extent;
    if (!runs_on) {
      push_dim(result, extent, box.source_strides[dim], box.target_strides[dim]);
      continue;
    }
    result.extents[last] *= extent;
    result.source_strides[last] = box.source_strides[dim];
    result.target_strides[last] = box.target_strides[dim];
  }
  return result;
}

// The dim of a box (except the last one) along which the source is contiguous; otherwise the one
// before the last.
int row_dim_of(const StridedBox& box) {
  const int last = box.extents.size() - 1;
  for (int dim = 0; dim < last; ++dim)
    if (box.source_strides[dim] == 1) return dim;
  return last - 1;
}

struct Plane {
  int64_t rows, source_row, target_row;
  int64_t columns, source_column, target_column;
};

// Four elements of 4 bytes in one register.
using Quad __attribute__((vector_size(16))) = uint32_t;

Quad load(const uint32_t* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof(quad));
  return quad;
}

// Transposes four by four elements: the columns of the source, contiguous along the rows, become
// the rows of the target.
void transpose_quads(const uint32_t* source, int64_t source_stride, uint32_t* target,
                     int64_t target_stride) {
  const Quad a = load(source), b = load(source + source_stride);
  const Quad c = load(source + 2 * source_stride), d = load(source + 3 * source_stride);
  const Quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
             ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
             cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Quad rows[4] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                        __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                        __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                        __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int64_t row = 0; row < 4; ++row)
    std::memcpy(target + row * target_stride, &rows[row], sizeof(Quad));
}

// Transposes a whole block in registers.  requires  both layouts are contiguous along one of its
// edges
void transpose_block(const Plane& plane, const uint32_t* source, uint32_t* target) {
  for (int64_t row = 0; row < kBlock; row += 4)
    for (int64_t column = 0; column < kBlock; column += 4)
      transpose_quads(source + row + column * plane.source_column, plane.source_column,
                      target + row * plane.target_row + column, plane.target_row);
}

template <typename T>
void copy_block(const Plane& plane, int64_t row_begin, int64_t column_begin, const T* source,
                T* target) {
  const int64_t row_end = std::min(plane.rows, row_begin + kBlock);
  const int64_t column_end = std::min(plane.columns, column_begin + kBlock);
  if constexpr (sizeof(T) == sizeof(uint32_t)) {
    const bool whole = row_end - row_begin == kBlock && column_end - column_begin == kBlock;
    if (whole && plane.target_column == 1)
      return transpose_block(plane, source + row_begin + column_begin * plane.source_column,
                             target + row_begin * plane.target_row + column_begin);
  }
  for (int64_t row = row_begin; row < row_end; ++row)
    for (int64_t column = column_begin; column < column_end; ++column)
      target[row * plane.target_row + column * plane.target_column] =
          source[row * plane.source_row + column * plane.source_column];
}

template <typename T>
void copy_row(const Plane& plane, const T* source, T* target) {
  if (plane.source_column == 1 && plane.target_column == 1) {
    std::memcpy(target, source, plane.columns * sizeof(T));
  } else if (plane.source_column == 0 && plane.target_column == 1) {
    std::fill_n(target, plane.columns, *source);
  } else {
    for (int64_t column = 0; column < plane.columns; ++column)
      target[column * plane.target_column] = source[column * plane.source_column];
  }
}

template <typename T>
void copy_plane(const Plane& plane, const T* source, T* target) {
  const bool crosswise = plane.source_row == 1 && plane.source_column > 1;
  if (!crosswise) {
    for (int64_t row = 0; row < plane.rows; ++row)
      copy_row(plane, source + row * plane.source_row, target + row * plane.target_row);
    return;
  }
  for (int64_t row = 0; row < plane.rows; row += kBlock)
    for (int64_t column = 0; column < plane.columns; column += kBlock)
      copy_block(plane, row, column, source, target);
}

}  // namespace

StridedCopy::StridedCopy(const StridedBox& box, int64_t element_size)
    : element_size_(element_size) {
  ensure(element_size == 1 || element_size == 2 || element_size == 4,
         "elements of a strided copy have 1, 2 or 4 bytes");
  const StridedBox whole = merged(box);
  outer_.source_begin = whole.source_begin;
  outer_.target_begin = whole.target_begin;
  const int last = whole.extents.size() - 1;
  if (last >= 0) {
    columns_ = whole.extents[last];
    source_column_ = whole.source_strides[last];
    target_column_ = whole.target_strides[last];
  }
  if (last >= 1) {
    const int row = row_dim_of(whole);
    rows_ = whole.extents[row];
    source_row_ = whole.source_strides[row];
    target_row_ = whole.target_strides[row];
    for (int dim = 0; dim < last; ++dim)
      if (dim != row)
        push_dim(outer_, whole.extents[dim], whole.source_strides[dim], whole.target_strides[dim]);
  }
}

void StridedCopy::run(const std::byte* source, std::byte* target) const {
  if (element_size_ == 1)
    return run_typed(reinterpret_cast<const uint8_t*>(source), reinterpret_cast<uint8_t*>(target));
  if (element_size_ == 2)
    return run_typed(reinterpret_cast<const uint16_t*>(source),
                     reinterpret_cast<uint16_t*>(target));
  run_typed(reinterpret_cast<const uint32_t*>(source), reinterpret_cast<uint32_t*>(target));
}

template <typename T>
void StridedCopy::run_typed(const T* source, T* target) const {
  if (rows_ == 0 || columns_ == 0) return;
  const Plane plane{rows_, source_row_, target_row_, columns_, source_column_, target_column_};
  Odometer<2> position(outer_.extents, {outer_.source_strides, outer_.target_strides});
  const int64_t planes = element_count(outer_.extents);
  for (int64_t i = 0; i < planes; ++i, position.step())
    copy_plane(plane, source + outer_.source_begin + position.offset(0),
               target + outer_.target_begin + position.offset(1));
}

}  // namespace tessera
