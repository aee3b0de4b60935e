// Copies and reduces boxes between dense tensors, each of which holds a box of one whole tensor.
// This is the arithmetic of exchanges, feeds and fetches. It knows no ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/tensor/reduce_op.h"
#include "base/tensor/split.h"
#include "base/tensor/tensor.h"

namespace tessera {

/// target[box] = source 0 (+) source 1 (+) ..., in this order. (+) is a reduction; one source is
/// copied. Elements of every type are copied; f32, f16, bf16, i32 and bool are reduced. f16 and
/// bf16 are combined in f32 and rounded once.
///
///   memory   planned once; run() allocates nothing
///   time     long rows are processed in pieces that stay in the first-level cache, so each source
///            is read once and the target written once; the sum of two very long sources is written
///            past the caches
class BoxCombine {
 public:
  /// `box` and `target_holds` are in the coordinates of the whole tensor.
  ///   requires  box is inside target_holds and is not empty
  BoxCombine(DType dtype, ReduceOp reduce, const Box& box, const Box& target_holds);

  /// Adds a contribution: source `index` of run(), which has the box `holds`.
  ///   requires  box is inside holds
  ///   throws    UserError when a second source is added and the type has no reductions
  void add_source(size_t index, const Box& holds);
  const Box& box() const { return box_; }

  /// Call once after the last source: joins dims that are dense in all tensors into long rows.
  void join_dims();

  void run(std::byte* target, std::span<const std::byte* const> sources) const;

 private:
  /// The position of a box in a dense tensor, in elements.
  struct Layout {
    Dims strides;
    int64_t offset = 0;
  };
  struct Source {
    size_t index = 0;
    Layout layout;
  };
  struct Row {
    std::byte* data = nullptr;
    int64_t stride = 1;
  };
  struct ConstRow {
    const std::byte* data = nullptr;
    int64_t stride = 1;
  };
  using WidenFunction = void (*)(ConstRow source, float* out, int64_t count);
  using RoundFunction = void (*)(const float* x, Row target, int64_t count);
  using CopyFunction = void (*)(Row target, ConstRow source, int64_t count);
  /// Copies `rows` dense rows of `count` elements, which are `stride` elements apart.
  using CopyRowsFunction = void (*)(Row target, ConstRow source, int64_t rows, int64_t count);
  /// target = first (+) second; `first` may be the target.
  using ReduceFunction = void (*)(Row target, ConstRow first, ConstRow second, int64_t count);

  template <typename T>
  static void copy_row(Row target, ConstRow source, int64_t count);
  template <typename T>
  static void copy_rows(Row target, ConstRow source, int64_t rows, int64_t count);
  template <typename T, ReduceOp kOp>
  static void reduce_rows(Row target, ConstRow first, ConstRow second, int64_t count);
  static CopyFunction copy_function(int64_t element_size);
  static CopyRowsFunction copy_rows_function(int64_t element_size);
  static ReduceFunction reduce_function(DType dtype, ReduceOp reduce);
  template <typename T>
  static void widen_row(ConstRow source, float* out, int64_t count);
  template <typename T>
  static void round_row(const float* x, Row target, int64_t count);
  static void stream_rows(Row target, ConstRow first, ConstRow second, int64_t count);
  bool may_stream() const;
  bool copies_dense_rows() const;

  Layout layout_in(const Box& holds) const;
  bool can_join(int dim) const;
  bool has_even_strides(const Layout& layout, int dim) const;
  void erase_dim(int dim);
  void run_row(std::byte* target, std::span<const std::byte* const> sources,
               const Dims& index) const;
  /// The rows of the last dim but one.
  void run_rows(std::byte* target, const std::byte* source, const Dims& index) const;
  /// row_of(source): its row.
  template <typename RowOf>
  void reduce_narrow(Row target, const RowOf& row_of, int64_t count) const;

  DType dtype_;
  Box box_;
  CopyFunction copy_;
  CopyRowsFunction copy_rows_;
  ReduceFunction reduce_;
  WidenFunction widen_ = nullptr;  // of f16 and bf16, whose reduce_ is that of f32
  RoundFunction round_ = nullptr;
  Dims extents_;
  Layout target_;
  std::vector<Source> sources_;
};

/// Fills `count` elements with the identity of a reduction: 0 for a sum, minus infinity for a
/// maximum, ...
void fill_with_identity(DType dtype, ReduceOp reduce, std::byte* data, int64_t count);

}  // namespace tessera
