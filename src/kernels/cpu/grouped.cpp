// grouped_matmul, grouped_outer: one matrix product for each group of rows. Parts of rows and of
// groups have the numbers at which they begin.
#include <algorithm>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/operands.h"

namespace tessera {
namespace {

struct GroupPlan {
  int64_t sizes = 0;        // of all ranks
  int64_t rows = 0;         // of this part
  int64_t row_begin = 0;    // in all rows
  int64_t groups = 0;       // of this part
  int64_t group_begin = 0;  // in all groups
};

GroupPlan plan_groups(const LocalCall& call, int64_t rows, int64_t groups, int64_t row_begin,
                      int64_t group_begin) {
  const TensorType& sizes = call.inputs[2];
  require(call, sizes.dtype == DType::kI32 && sizes.shape.size() == 1, "sizes are i32 of one dim");
  require(call, group_begin + groups <= sizes.shape[0], "there is a size for each group");
  return {sizes.shape[0], rows, row_begin, groups, group_begin};
}

/// Calls visit(group of this part, first row of this part, rows) for each group of this part, in
/// order, including groups without rows here.
template <typename Visit>
void for_each_group(const GroupPlan& plan, const int32_t* sizes, Visit visit) {
  int64_t begin = 0;  // in all rows
  for (int64_t g = 0; g < std::min(plan.sizes, plan.group_begin + plan.groups); ++g) {
    const int64_t end = begin + std::max<int64_t>(sizes[g], 0);
    const int64_t first = std::clamp<int64_t>(begin - plan.row_begin, 0, plan.rows);
    const int64_t last = std::clamp<int64_t>(end - plan.row_begin, 0, plan.rows);
    if (g >= plan.group_begin) visit(g - plan.group_begin, first, last - first);
    begin = end;
  }
}

void require_f32(const LocalCall& call) {
  for (size_t i : {size_t{0}, size_t{1}})
    require(call, call.inputs[i].dtype == DType::kF32, "multiplies f32");
  require(call, call.outputs[0].dtype == DType::kF32 && call.inputs[0].shape.size() == 2,
          "gives f32, of rows");
}

}  // namespace

BoundKernel bind_grouped_matmul(const LocalCall& call) {
  require_operands(call, 3, 1, 3);
  require_f32(call);
  const bool transposed = call.ints[0] != 0;
  const Shape &x = call.inputs[0].shape, &w = call.inputs[1].shape, &out = call.outputs[0].shape;
  require(call, w.size() == 3 && w[transposed ? 2 : 1] == x[1], "x and w have the same inner dim");
  const int64_t inner = x[1], columns = w[transposed ? 1 : 2];
  require(call, out == Shape{x[0], columns}, "gives rows by columns");
  const GroupPlan plan = plan_groups(call, x[0], w[0], call.ints[1], call.ints[2]);
  const auto run = [plan, transposed, inner, columns](const KernelBuffers& buffers) {
    const float *rows = input<float>(buffers, 0), *matrices = input<float>(buffers, 1);
    float* const result = output<float>(buffers, 0);
    int64_t done = 0;  // rows that are written
    for_each_group(plan, input<int32_t>(buffers, 2),
                   [&](int64_t group, int64_t first, int64_t count) {
                     if (count == 0) return;
                     std::fill(result + done * columns, result + first * columns, 0.0f);
                     const MatrixView matrix{matrices + group * inner * columns,
                                             transposed ? inner : columns, transposed};
                     gemm({count, columns, inner}, 1.0f, {rows + first * inner, inner, false},
                          matrix, false, result + first * columns, columns);
                     done = first + count;
                   });
    std::fill(result + done * columns, result + plan.rows * columns, 0.0f);
  };
  return {run, Bytes(0)};
}

BoundKernel bind_grouped_outer(const LocalCall& call) {
  require_operands(call, 3, 1, 2);
  require_f32(call);
  const Shape &x = call.inputs[0].shape, &y = call.inputs[1].shape, &out = call.outputs[0].shape;
  require(call, y.size() == 2 && y[0] == x[0], "x and y have the same rows");
  require(call, out.size() == 3 && out[1] == x[1] && out[2] == y[1],
          "gives a matrix for each group");
  const int64_t inner = x[1], columns = y[1];
  const GroupPlan plan = plan_groups(call, x[0], out[0], call.ints[0], call.ints[1]);
  const auto run = [plan, inner, columns](const KernelBuffers& buffers) {
    const float *left = input<float>(buffers, 0), *right = input<float>(buffers, 1);
    float* const result = output<float>(buffers, 0);
    for_each_group(plan, input<int32_t>(buffers, 2),
                   [&](int64_t group, int64_t first, int64_t count) {
                     gemm({inner, columns, count}, 1.0f, {left + first * inner, inner, true},
                          {right + first * columns, columns, false}, false,
                          result + group * inner * columns, columns);
                   });
  };
  return {run, Bytes(0)};
}

/// A multiplication and an addition for each row, inner element and column; rows of no group count
/// too, since the sizes of groups are known only when it runs.
LocalWork work_of_grouped(const LocalCall& call) {
  const auto columns = static_cast<double>(call.outputs[0].shape[call.outputs[0].shape.size() - 1]);
  return work_over_operands(call, OperationClass::kMatmul,
                            2 * elements_of(call.inputs[0]) * columns);
}

}  // namespace tessera
