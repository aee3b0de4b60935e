// Copies a box of elements from one strided layout to another: the loop of transpose, broadcast,
// slice, pad, concat and the packing of matrices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tensor/dims.h"

namespace tessera {

/// The elements to copy. Position p of the box is copied from source[source_begin + sum p_d *
/// source_strides_d] to the corresponding element of the target. A source stride of 0 repeats an
/// element.
struct StridedBox {
  Dims extents;
  Dims source_strides;
  Dims target_strides;
  int64_t source_begin = 0;
  int64_t target_begin = 0;
};

/// A planned copy. Adjacent dims are merged, and the two innermost dims are chosen so that both
/// reading and writing stay within cache lines.
class StridedCopy {
 public:
  ///   requires  dims are in the order of the target's memory; element_size is 1, 2 or 4
  StridedCopy(const StridedBox& box, int64_t element_size);

  /// Source and target must not overlap.
  void run(const std::byte* source, std::byte* target) const;

 private:
  template <typename T>
  void run_typed(const T* source, T* target) const;

  StridedBox outer_;  // all dims except the two innermost ones
  int64_t element_size_ = 4;
  // The two innermost dims: `columns` follows the target's memory, and `rows` follows the source's
  // memory where that differs.
  int64_t rows_ = 1, source_row_ = 0, target_row_ = 0;
  int64_t columns_ = 1, source_column_ = 0, target_column_ = 0;
};

}  // namespace tessera
