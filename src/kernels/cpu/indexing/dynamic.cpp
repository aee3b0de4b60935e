// dynamic_slice, dynamic_update: windows whose beginning is known only when the kernel runs. The
// elements of a window that are outside the tensor, or in the part of another rank, are read as
// zero and are not written.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/common/strided_copy.h"

namespace tessera {
namespace {

/// One dim in which the window moves: window index 0 is at start - offset in the tensor.
struct MovingDim {
  int dim = 0;
  size_t start = 0;  // index of the input that holds the start
  int64_t offset = 0;
};

struct WindowPlan {
  Shape tensor;
  Shape window;
  Dims tensor_strides;
  Dims window_strides;
  std::vector<MovingDim> moving;
  int64_t element_size = 4;
};

/// The part of the window that is inside the tensor: a range of each, of equal lengths.
struct Overlap {
  Dims extents;
  int64_t in_tensor = 0;  // offset of its first element
  int64_t in_window = 0;
  bool is_whole = true;  // is it all of the window?
};

Overlap overlap_of(const WindowPlan& plan, const KernelBuffers& buffers) {
  Dims low = Dims::filled(plan.window.size(), 0);
  for (const MovingDim& moving : plan.moving)
    low[moving.dim] = int64_t{*input<int32_t>(buffers, moving.start)} - moving.offset;
  Overlap overlap;
  for (int dim = 0; dim < plan.window.size(); ++dim) {
    const int64_t begin = std::clamp<int64_t>(-low[dim], 0, plan.window[dim]);
    const int64_t end = std::clamp(plan.tensor[dim] - low[dim], begin, plan.window[dim]);
    overlap.extents.push_back(end - begin);
    overlap.in_tensor += (low[dim] + begin) * plan.tensor_strides[dim];
    overlap.in_window += begin * plan.window_strides[dim];
    overlap.is_whole = overlap.is_whole && end - begin == plan.window[dim];
  }
  return overlap;
}

WindowPlan plan_window(const LocalCall& call, const TensorType& tensor, const TensorType& window,
                       size_t first_start) {
  require(call, tensor.dtype == window.dtype, "all operands have one element type");
  require(call, tensor.shape.size() == window.shape.size(), "keeps the number of dims");
  for (size_t i = first_start; i < call.inputs.size(); ++i)
    require(call, call.inputs[i] == TensorType{DType::kI32, {}}, "begins at i32[]");
  return {tensor.shape,
          window.shape,
          row_major_strides(tensor.shape),
          row_major_strides(window.shape),
          {},
          size_of(tensor.dtype)};
}

void add_moving(const LocalCall& call, WindowPlan& plan, int64_t dim, size_t start,
                int64_t offset) {
  require(call, dim >= 0 && dim < plan.window.size(), "moves along dims of the tensor");
  plan.moving.push_back({static_cast<int>(dim), start, offset});
}

void require_equal_where_still(const LocalCall& call, const WindowPlan& plan) {
  for (int dim = 0; dim < plan.window.size(); ++dim) {
    const bool moves = std::any_of(plan.moving.begin(), plan.moving.end(),
                                   [dim](const MovingDim& moving) { return moving.dim == dim; });
    require(call, moves || plan.window[dim] == plan.tensor[dim],
            "takes whole what it does not move along");
  }
}

}  // namespace

BoundKernel bind_dynamic_slice(const LocalCall& call) {
  const size_t starts = call.inputs.empty() ? 0 : call.inputs.size() - 1;
  require_operands(call, starts + 1, 1, 3 * starts);
  WindowPlan plan = plan_window(call, call.inputs[0], call.outputs[0], 1);
  for (size_t k = 0; k < starts; ++k)
    add_moving(call, plan, call.ints[3 * k], 1 + k, call.ints[3 * k + 1] - call.ints[3 * k + 2]);
  require_equal_where_still(call, plan);
  const auto run = [plan,
                    bytes = byte_size(call.outputs[0]).value()](const KernelBuffers& buffers) {
    const Overlap overlap = overlap_of(plan, buffers);
    if (!overlap.is_whole) std::fill_n(buffers.outputs[0], bytes, std::byte{0});
    if (element_count(overlap.extents) == 0) return;
    const StridedBox box{overlap.extents, plan.tensor_strides, plan.window_strides,
                         overlap.in_tensor, overlap.in_window};
    StridedCopy(box, plan.element_size).run(buffers.inputs[0], buffers.outputs[0]);
  };
  return {run, Bytes(0)};
}

BoundKernel bind_dynamic_update(const LocalCall& call) {
  const size_t starts = call.inputs.size() < 2 ? 0 : call.inputs.size() - 2;
  require_operands(call, starts + 2, 1, 2 * starts);
  require(call, call.inputs[0] == call.outputs[0], "gives the type of input 0");
  WindowPlan plan = plan_window(call, call.outputs[0], call.inputs[1], 2);
  for (size_t k = 0; k < starts; ++k)
    add_moving(call, plan, call.ints[2 * k], 2 + k, call.ints[2 * k + 1]);
  require_equal_where_still(call, plan);
  const auto run = [plan,
                    bytes = byte_size(call.outputs[0]).value()](const KernelBuffers& buffers) {
    const bool in_place = buffers.inputs[0] == buffers.outputs[0];
    if (bytes > 0 && !in_place) std::memcpy(buffers.outputs[0], buffers.inputs[0], bytes);
    const Overlap overlap = overlap_of(plan, buffers);
    if (element_count(overlap.extents) == 0) return;
    const StridedBox box{overlap.extents, plan.window_strides, plan.tensor_strides,
                         overlap.in_window, overlap.in_tensor};
    StridedCopy(box, plan.element_size).run(buffers.inputs[1], buffers.outputs[0]);
  };
  return {run, Bytes(0)};
}

/// The tensor is changed in place: only the update is read and written.
LocalWork work_of_dynamic_update(const LocalCall& call) {
  return work_of_move(call, OperationClass::kMovement, call.inputs[1]);
}

}  // namespace tessera
