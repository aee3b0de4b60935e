// gather_nd, scatter_nd, scatter_add_nd: rows of a table with several leading dims. A row that is
// not in this part belongs to another rank.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/common/simd_loops.h"

namespace tessera {
namespace {

struct RowsPlan {
  int64_t count = 0;     // number of selected rows
  int depth = 0;         // number of indices of each
  Dims extents;          // of the leading dims of the table
  Dims begins;           // the numbers of its first rows
  int64_t rows = 1;      // product of the extents
  int64_t row_size = 1;  // elements of a row
  int64_t element_size = 4;

  int64_t row_bytes() const { return row_size * element_size; }

  /// The row that `index` selects, or -1.
  int64_t row_of(const int32_t* index) const {
    int64_t row = 0;
    for (int d = 0; d < depth; ++d) {
      const int64_t at = int64_t{index[d]} - begins[d];
      if (at < 0 || at >= extents[d]) return -1;
      row = row * extents[d] + at;
    }
    return row;
  }
};

RowsPlan plan_rows(const LocalCall& call, const TensorType& table, const TensorType& ids,
                   const TensorType& updates) {
  require(call, ids.dtype == DType::kI32 && !ids.shape.empty(), "ids are i32 of one dim at least");
  RowsPlan plan;
  plan.depth = static_cast<int>(ids.shape[ids.shape.size() - 1]);
  require(call, plan.depth <= table.shape.size() && plan.depth == std::ssize(call.ints),
          "there is an index and a begin for each of the first dims of the table");
  Shape expected;
  for (int d = 0; d + 1 < ids.shape.size(); ++d) expected.push_back(ids.shape[d]);
  plan.count = element_count(expected);
  for (int d = 0; d < table.shape.size(); ++d) {
    if (d >= plan.depth) {
      expected.push_back(table.shape[d]);
      plan.row_size *= table.shape[d];
      continue;
    }
    plan.extents.push_back(table.shape[d]);
    plan.begins.push_back(call.ints[d]);
    plan.rows *= table.shape[d];
  }
  require(call, updates == TensorType{table.dtype, expected}, "there is one row for each index");
  plan.element_size = size_of(table.dtype);
  return plan;
}

void gather(const RowsPlan& plan, const std::byte* table, const int32_t* ids, std::byte* out) {
  const int64_t bytes = plan.row_bytes();
  if (bytes == 0) return;
  for (int64_t i = 0; i < plan.count; ++i, ids += plan.depth, out += bytes) {
    const int64_t row = plan.row_of(ids);
    if (row < 0)
      std::memset(out, 0, bytes);
    else
      std::memcpy(out, table + row * bytes, bytes);
  }
}

void scatter(const RowsPlan& plan, const std::byte* table, const int32_t* ids,
             const std::byte* updates, std::byte* out) {
  const int64_t bytes = plan.row_bytes();
  if (bytes * plan.rows == 0) return;
  if (table != out) std::memcpy(out, table, plan.rows * bytes);
  for (int64_t i = 0; i < plan.count; ++i, ids += plan.depth, updates += bytes)
    if (const int64_t row = plan.row_of(ids); row >= 0)
      std::memcpy(out + row * bytes, updates, bytes);
}

void scatter_add(const RowsPlan& plan, BinaryLoop add, const int32_t* ids, const float* updates,
                 float* out) {
  std::fill_n(out, plan.rows * plan.row_size, 0.0f);
  for (int64_t i = 0; i < plan.count; ++i, ids += plan.depth, updates += plan.row_size) {
    const int64_t row = plan.row_of(ids);
    if (row < 0) continue;
    float* const target = out + row * plan.row_size;
    add(target, updates, target, plan.row_size);
  }
}

}  // namespace

BoundKernel bind_gather_nd(const LocalCall& call) {
  require_operands(call, 2, 1, call.ints.size());
  const RowsPlan plan = plan_rows(call, call.inputs[0], call.inputs[1], call.outputs[0]);
  const auto run = [plan](const KernelBuffers& buffers) {
    gather(plan, buffers.inputs[0], input<int32_t>(buffers, 1), buffers.outputs[0]);
  };
  return {run, Bytes(0)};
}

BoundKernel bind_scatter_nd(const LocalCall& call) {
  require_operands(call, 3, 1, call.ints.size());
  require(call, call.inputs[0] == call.outputs[0], "gives the type of input 0");
  const RowsPlan plan = plan_rows(call, call.outputs[0], call.inputs[1], call.inputs[2]);
  const auto run = [plan](const KernelBuffers& buffers) {
    scatter(plan, buffers.inputs[0], input<int32_t>(buffers, 1), buffers.inputs[2],
            buffers.outputs[0]);
  };
  return {run, Bytes(0)};
}

BoundKernel bind_scatter_add_nd(const LocalCall& call) {
  require_operands(call, 2, 1, call.ints.size());
  require(call, call.inputs[1].dtype == DType::kF32, "adds f32");
  const RowsPlan plan = plan_rows(call, call.outputs[0], call.inputs[0], call.inputs[1]);
  const auto run = [plan, add = find_binary_loop("add")](const KernelBuffers& buffers) {
    scatter_add(plan, add, input<int32_t>(buffers, 0), input<float>(buffers, 1),
                output<float>(buffers, 0));
  };
  return {run, Bytes(0)};
}

/// The table is changed in place: only indices and updates are read, and the updates written.
LocalWork work_of_scatter_nd(const LocalCall& call) {
  LocalWork work = work_of_move(call, OperationClass::kGather, call.inputs[2]);
  work.read += byte_size(call.inputs[1]);
  return work;
}

}  // namespace tessera
