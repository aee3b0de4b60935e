// reduce: three ways to traverse memory for one order of combining (simd_reduce.h).
//
//   runs      the reduced dims are adjacent in memory: each output combines one run
//   columns   the innermost dim is kept: a tile of outputs combines row after row
//   pieces    the innermost dim is reduced together with others further out: values are collected
//             block by block
#include <algorithm>
#include <array>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/odometer.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/common/simd_reduce.h"

namespace tessera {
namespace {

// Outputs of a column tile: its lanes and levels stay in the first-level cache.
constexpr int64_t kTile = 256;

// A tile's rows are short and far apart, so that the hardware does not foresee the next ones.
constexpr int64_t kRowsAhead = 8;
constexpr int64_t kLine = 16;  // elements of 4 bytes in a cache line

struct StridedDims {
  Dims extents;
  Dims strides;

  void push_back(int64_t extent, int64_t stride) {
    extents.push_back(extent);
    strides.push_back(stride);
  }
  void pop_back() {
    extents = Dims(std::span<const int64_t>(extents).first(extents.size() - 1));
    strides = Dims(std::span<const int64_t>(strides).first(strides.size() - 1));
  }
  int64_t count() const { return element_count(extents); }
};

struct ReducePlan {
  StridedDims kept;     // without the columns; their row-major order is the output's
  StridedDims reduced;  // without the run
  int64_t columns = 1;  // extent of the innermost dim if it is kept, else 1
  int64_t run = 1;      // extent of the innermost dim if it is reduced, else 1
};

std::array<bool, kMaxRank> reduced_dims(const LocalCall& call) {
  std::array<bool, kMaxRank> reduced{};
  for (int64_t dim : call.ints) {
    require(call, dim >= 0 && dim < call.inputs[0].shape.size(), "reduces dims of the input");
    require(call, !reduced[dim], "reduces a dim once");
    reduced[dim] = true;
  }
  return reduced;
}

void require_result_type(const LocalCall& call, const std::array<bool, kMaxRank>& reduced) {
  TensorType expected{call.inputs[0].dtype, {}};
  for (int dim = 0; dim < call.inputs[0].shape.size(); ++dim)
    if (!reduced[dim]) expected.shape.push_back(call.inputs[0].shape[dim]);
  require(call, call.outputs[0] == expected, "gives the input without its reduced dims");
}

// Dims of extent 1 are dropped, and neighbours that are both kept or both reduced are merged.
ReducePlan plan_reduce(const LocalCall& call) {
  const std::array<bool, kMaxRank> reduced = reduced_dims(call);
  require_result_type(call, reduced);
  const Shape& in = call.inputs[0].shape;
  const Dims strides = row_major_strides(in);
  ReducePlan plan;
  bool previous_reduced = false, first = true;
  for (int dim = 0; dim < in.size(); ++dim) {
    if (in[dim] == 1) continue;
    const bool now_reduced = reduced[dim];
    StridedDims& group = now_reduced ? plan.reduced : plan.kept;
    if (!first && now_reduced == previous_reduced) {
      const int last = group.extents.size() - 1;
      group.extents[last] *= in[dim];
      group.strides[last] = strides[dim];
    } else {
      group.push_back(in[dim], strides[dim]);
    }
    previous_reduced = now_reduced;
    first = false;
  }
  if (first) return plan;
  StridedDims& innermost = previous_reduced ? plan.reduced : plan.kept;
  (previous_reduced ? plan.run : plan.columns) = innermost.extents[innermost.extents.size() - 1];
  innermost.pop_back();
  return plan;
}

template <typename T>
void reduce_runs(const ReducePlan& plan, const ReduceLoops<T>& loops, const T* in, T* out) {
  Odometer<1> position(plan.kept.extents, {plan.kept.strides});
  const int64_t outputs = plan.kept.count();
  for (int64_t i = 0; i < outputs; ++i, position.step())
    out[i] = reduce_run(loops, in + position.offset(0), plan.run);
}

// Blocks are cut as if the values lay side by side: one that ends within a piece is collected in a
// copy.
template <typename T>
T reduce_pieces_of_one(const ReducePlan& plan, const ReduceLoops<T>& loops, const T* in) {
  T block[kReduceBlock];
  int64_t filled = 0;
  PairwiseTree<T> tree(loops);
  Odometer<1> position(plan.reduced.extents, {plan.reduced.strides});
  const int64_t pieces = plan.reduced.count();
  for (int64_t piece = 0; piece < pieces; ++piece, position.step()) {
    const T* const values = in + position.offset(0);
    for (int64_t taken = 0; taken < plan.run;) {
      const int64_t count = std::min(kReduceBlock - filled, plan.run - taken);
      if (count == kReduceBlock) {
        tree.add(loops.block(values + taken, count));
      } else {
        std::copy_n(values + taken, count, block + filled);
        filled += count;
      }
      taken += count;
      if (filled < kReduceBlock) continue;
      tree.add(loops.block(block, filled));
      filled = 0;
    }
  }
  if (filled > 0) tree.add(loops.block(block, filled));
  return tree.result();
}

template <typename T>
void reduce_pieces(const ReducePlan& plan, const ReduceLoops<T>& loops, const T* in, T* out) {
  Odometer<1> position(plan.kept.extents, {plan.kept.strides});
  const int64_t outputs = plan.kept.count();
  for (int64_t i = 0; i < outputs; ++i, position.step())
    out[i] = reduce_pieces_of_one(plan, loops, in + position.offset(0));
}

// The lanes and the tree of one tile of columns: PairwiseTree and LaneVectors for many outputs at
// once.
template <typename T>
class ColumnTile {
 public:
  ColumnTile(const ReduceLoops<T>& loops, int64_t width) : loops_(loops), width_(width) {}

  void add_row(const T* values) {
    if (rows_ == 0)
      for (auto& lane : lanes_) std::fill_n(lane, width_, loops_.identity);
    loops_.rows(lanes_[rows_ % kReduceLanes], values, width_);
    if (++rows_ == kReduceBlock) finish_block();
  }

  void result(T* out) {
    if (rows_ > 0) finish_block();
    std::fill_n(out, width_, loops_.identity);
    for (int level = 0; level < kReduceLevels; ++level)
      if ((blocks_ >> level) & 1) combine_left(partial_[level], out);
  }

 private:
  void finish_block() {
    for (int64_t half = kReduceLanes / 2; half >= 1; half /= 2)
      for (int64_t lane = 0; lane < half; ++lane)
        loops_.rows(lanes_[lane], lanes_[lane + half], width_);
    int level = 0;
    for (; (blocks_ >> level) & 1; ++level) combine_left(partial_[level], lanes_[0]);
    std::copy_n(lanes_[0], width_, partial_[level]);
    ++blocks_;
    rows_ = 0;
  }

  // value = left with value: the left operand comes first, as in PairwiseTree.
  void combine_left(T* left, T* value) {
    loops_.rows(left, value, width_);
    std::copy_n(left, width_, value);
  }

  const ReduceLoops<T>& loops_;
  int64_t width_;
  int64_t rows_ = 0;
  uint64_t blocks_ = 0;
  alignas(64) T lanes_[kReduceLanes][kTile];
  alignas(64) T partial_[kReduceLevels][kTile];
};

template <typename T>
void reduce_tile(const ReducePlan& plan, const ReduceLoops<T>& loops, const T* in, int64_t width,
                 T* out) {
  ColumnTile<T> tile(loops, width);
  Odometer<1> position(plan.reduced.extents, {plan.reduced.strides});
  const int64_t rows = plan.reduced.count();
  const int64_t ahead = plan.reduced.extents.empty()
                            ? 0
                            : kRowsAhead * plan.reduced.strides[plan.reduced.strides.size() - 1];
  for (int64_t row = 0; row < rows; ++row, position.step()) {
    const T* const values = in + position.offset(0);
    if (row + kRowsAhead < rows)
      for (int64_t column = 0; column < width; column += kLine)
        __builtin_prefetch(values + ahead + column);
    tile.add_row(values);
  }
  tile.result(out);
}

template <typename T>
void reduce_columns(const ReducePlan& plan, const ReduceLoops<T>& loops, const T* in, T* out) {
  Odometer<1> position(plan.kept.extents, {plan.kept.strides});
  const int64_t groups = plan.kept.count();
  for (int64_t group = 0; group < groups; ++group, position.step(), out += plan.columns)
    for (int64_t column = 0; column < plan.columns; column += kTile)
      reduce_tile(plan, loops, in + position.offset(0) + column,
                  std::min(kTile, plan.columns - column), out + column);
}

template <typename T>
BoundKernel bind_reduce_of(const LocalCall& call) {
  const ReduceLoops<T> loops = find_reduce_loops<T>(operation_of(call));
  require(call, loops.block != nullptr, "is not for this element type");
  const ReducePlan plan = plan_reduce(call);
  const bool whole_runs = plan.columns == 1 && plan.reduced.extents.empty();
  const auto walk = whole_runs                           ? reduce_runs<T>
                    : plan.columns == 1 && plan.run != 1 ? reduce_pieces<T>
                                                         : reduce_columns<T>;
  const auto run = [plan, loops, walk](const KernelBuffers& buffers) {
    walk(plan, loops, input<T>(buffers, 0), output<T>(buffers, 0));
  };
  return {run, Bytes(0)};
}

}  // namespace

BoundKernel bind_reduce(const LocalCall& call) {
  require_operands(call, 1, 1, call.ints.size());
  switch (call.inputs[0].dtype) {
    case DType::kF32: return bind_reduce_of<float>(call);
    case DType::kI32: return bind_reduce_of<int32_t>(call);
    case DType::kBool: return bind_reduce_of<uint8_t>(call);
    default: throw InternalError("a reduction of an element type without kernels");
  }
}

/// Reductions of the last dim compute row by row; others add rows to each other, and each group of
/// rows that become one is a piece. Rows of which several become one element are a third way.
LocalWork work_of_reduce(const LocalCall& call) {
  LocalWork work =
      work_over_operands(call, OperationClass::kReduction, elements_of(call.inputs[0]));
  const Shape& in = call.inputs[0].shape;
  const auto reduced = [&](int dim) {
    return std::ranges::find(call.ints, dim) != call.ints.end();
  };
  const bool is_of_rows = in.size() == 0 || reduced(in.size() - 1);
  int64_t run = 1;
  for (int dim = in.size() - 1; dim >= 0 && reduced(dim) == is_of_rows; --dim) run *= in[dim];
  const double of = elements_of(is_of_rows ? call.inputs[0] : call.outputs[0]);
  work.pieces = of / static_cast<double>(std::max<int64_t>(run, 1));
  if (!is_of_rows)
    work.kernel = work.pieces > 1 ? "reduce.groups" : "reduce.columns";
  else if (work.pieces > elements_of(call.outputs[0]))
    work.kernel = "reduce.planes";
  return work;
}

}  // namespace tessera
