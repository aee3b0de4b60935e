// Copies a box of elements from one strided layout to another: the loop under transpose, broadcast,
// slice, pad, concat and the packing of matrices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dims.h"

namespace tessera {

/// What to copy, in elements. Position p of the box goes from source[source_begin + sum p_d *
/// source_strides_d] to the like place in the target. A source stride of 0 repeats an element.
struct StridedBox {
  Dims extents;
  Dims source_strides;
  Dims target_strides;
  int64_t source_begin = 0;
  int64_t target_begin = 0;
};

/// A planned copy: neighbouring dims merged, and the two innermost chosen so that both reading and
/// writing stay within cache lines.
class StridedCopy {
 public:
  /// requires  dims in the order of the target's memory; element_size 1 or 4
  StridedCopy(const StridedBox& box, int64_t element_size);

  /// Source and target must not overlap.
  void run(const std::byte* source, std::byte* target) const;

 private:
  template <typename T>
  void run_typed(const T* source, T* target) const;

  StridedBox outer_;  // what remains beside the two innermost dims
  int64_t element_size_ = 4;
  // The innermost two dims: `columns` follows the target's memory, `rows` the source's where that
  // differs.
  int64_t rows_ = 1, source_row_ = 0, target_row_ = 0;
  int64_t columns_ = 1, source_column_ = 0, target_column_ = 0;
};

}  // namespace tessera
