// take_along_dim, scatter_add_along_dim: elements of lanes that numbers select. An element that is
// not in this part belongs to another rank.
#include <algorithm>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/lanes.h"

namespace tessera {
namespace {

struct LanePlan {
  Lanes tensor;
  int64_t ids = 0;    // along the dim
  int64_t begin = 0;  // number of the tensor's first element in it
};

LanePlan plan_lanes(const LocalCall& call, const TensorType& tensor, const TensorType& ids) {
  require(call, ids.dtype == DType::kI32, "ids are i32");
  const Lanes lanes = lanes_of(call, tensor.shape, call.ints[0]);
  require(call, equal_beside(tensor.shape, ids.shape, call.ints[0]),
          "ids differ from the tensor in one dim only");
  return {lanes, ids.shape[call.ints[0]], call.ints[1]};
}

// T has the size of an element and holds its bits.
template <typename T>
void take(const LanePlan& plan, const T* x, const int32_t* ids, T* out) {
  const Lanes& lanes = plan.tensor;
  for (int64_t o = 0; o < lanes.outer; ++o, x += lanes.extent * lanes.inner)
    for (int64_t i = 0; i < plan.ids; ++i)
      for (int64_t n = 0; n < lanes.inner; ++n) {
        const int64_t at = int64_t{*ids++} - plan.begin;
        *out++ = at < 0 || at >= lanes.extent ? T{0} : x[at * lanes.inner + n];
      }
}

void scatter_add(const LanePlan& plan, const int32_t* ids, const float* updates, float* out) {
  const Lanes& lanes = plan.tensor;
  std::fill_n(out, lanes.outer * lanes.extent * lanes.inner, 0.0f);
  for (int64_t o = 0; o < lanes.outer; ++o, out += lanes.extent * lanes.inner)
    for (int64_t i = 0; i < plan.ids; ++i)
      for (int64_t n = 0; n < lanes.inner; ++n, ++updates) {
        const int64_t at = int64_t{*ids++} - plan.begin;
        if (at >= 0 && at < lanes.extent) out[at * lanes.inner + n] += *updates;
      }
}

template <typename T>
BoundKernel run_take(const LanePlan& plan) {
  const auto run = [plan](const KernelBuffers& buffers) {
    take(plan, input<T>(buffers, 0), input<int32_t>(buffers, 1), output<T>(buffers, 0));
  };
  return {run, Bytes(0)};
}

}  // namespace

BoundKernel bind_take_along_dim(const LocalCall& call) {
  require_operands(call, 2, 1, 2);
  const LanePlan plan = plan_lanes(call, call.inputs[0], call.inputs[1]);
  require(call, call.outputs[0] == TensorType{call.inputs[0].dtype, call.inputs[1].shape},
          "gives an element for each id");
  switch (size_of(call.inputs[0].dtype)) {
    case 1: return run_take<uint8_t>(plan);
    case 2: return run_take<uint16_t>(plan);
    default: return run_take<uint32_t>(plan);
  }
}

BoundKernel bind_scatter_add_along_dim(const LocalCall& call) {
  require_operands(call, 2, 1, 2);
  const LanePlan plan = plan_lanes(call, call.outputs[0], call.inputs[0]);
  require(call, call.outputs[0].dtype == DType::kF32, "adds f32");
  require(call, call.inputs[1] == TensorType{DType::kF32, call.inputs[0].shape},
          "adds an update for each id");
  const auto run = [plan](const KernelBuffers& buffers) {
    scatter_add(plan, input<int32_t>(buffers, 0), input<float>(buffers, 1),
                output<float>(buffers, 0));
  };
  return {run, Bytes(0)};
}

}  // namespace tessera
