// gather, scatter_add: rows of a table that numbers select. A row that is not in this part of the
// table belongs to another rank.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/common/simd_loops.h"

namespace tessera {
namespace {

// [I...] and [T...] joined to [I..., T...], where the table is [R, T...].
Shape rows_shape(const Shape& ids, const Shape& table) {
  Shape shape = ids;
  for (int dim = 1; dim < table.size(); ++dim) shape.push_back(table[dim]);
  return shape;
}

struct RowPlan {
  int64_t ids = 0;         // number of selected rows
  int64_t table_rows = 0;  // R
  int64_t row_size = 0;    // elements of a row
  int64_t begin = 0;       // number of the table's first row
  int64_t element_size = 4;
};

RowPlan plan_rows(const LocalCall& call, const TensorType& ids, const TensorType& table,
                  const TensorType& rows) {
  require(call, ids.dtype == DType::kI32, "ids are i32");
  require(call, table.shape.size() >= 1, "the table has rows");
  require(call, rows.dtype == table.dtype && rows.shape == rows_shape(ids.shape, table.shape),
          "there is one row for each id");
  int64_t row_size = 1;
  for (int dim = 1; dim < table.shape.size(); ++dim) row_size *= table.shape[dim];
  return {element_count(ids.shape), table.shape[0], row_size, call.ints[0], size_of(table.dtype)};
}

void gather_rows(const RowPlan& plan, const std::byte* table, const int32_t* ids, std::byte* out) {
  const int64_t row_bytes = plan.row_size * plan.element_size;
  if (row_bytes == 0) return;
  for (int64_t i = 0; i < plan.ids; ++i, out += row_bytes) {
    const int64_t row = int64_t{ids[i]} - plan.begin;
    if (row < 0 || row >= plan.table_rows) {
      std::memset(out, 0, row_bytes);
    } else {
      std::memcpy(out, table + row * row_bytes, row_bytes);
    }
  }
}

void scatter_rows(const RowPlan& plan, BinaryLoop add, const int32_t* ids, const float* updates,
                  float* out) {
  std::fill_n(out, plan.table_rows * plan.row_size, 0.0f);
  for (int64_t i = 0; i < plan.ids; ++i, updates += plan.row_size) {
    const int64_t row = int64_t{ids[i]} - plan.begin;
    if (row < 0 || row >= plan.table_rows) continue;
    float* target = out + row * plan.row_size;
    add(target, updates, target, plan.row_size);
  }
}

}  // namespace

BoundKernel bind_gather(const LocalCall& call) {
  require_operands(call, 2, 1, 1);
  const RowPlan plan = plan_rows(call, call.inputs[1], call.inputs[0], call.outputs[0]);
  const auto run = [plan](const KernelBuffers& buffers) {
    gather_rows(plan, buffers.inputs[0], input<int32_t>(buffers, 1), buffers.outputs[0]);
  };
  return {run, Bytes(0)};
}

BoundKernel bind_scatter_add(const LocalCall& call) {
  require_operands(call, 2, 1, 1);
  require(call, call.inputs[1].dtype == DType::kF32, "adds f32");
  const RowPlan plan = plan_rows(call, call.inputs[0], call.outputs[0], call.inputs[1]);
  const auto run = [plan, add = find_binary_loop("add")](const KernelBuffers& buffers) {
    scatter_rows(plan, add, input<int32_t>(buffers, 0), input<float>(buffers, 1),
                 output<float>(buffers, 0));
  };
  return {run, Bytes(0)};
}

/// It reads the indices and the rows that they select, not the whole table.
LocalWork work_of_gather(const LocalCall& call) {
  LocalWork work = work_of_move(call, OperationClass::kGather, call.outputs[0]);
  work.read += byte_size(call.inputs[1]);
  work.pieces = elements_of(call.inputs[1]);
  return work;
}

/// An addition for each element of the updates.
LocalWork work_of_scatter_add(const LocalCall& call) {
  LocalWork work = work_over_operands(call, OperationClass::kGather, elements_of(call.inputs[1]));
  work.pieces = elements_of(call.inputs[0]);
  return work;
}

}  // namespace tessera
