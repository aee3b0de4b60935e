// random_uniform: the part of a random tensor that this rank holds. A number depends only on its
// position in the whole tensor.
#include "base/random.h"

#include <algorithm>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/odometer.h"
#include "kernels/cpu/common/operands.h"

namespace tessera {
namespace {

// The part, as runs of consecutive numbers of the whole tensor.
struct RandomPlan {
  uint64_t key = 0;
  int64_t first = 0;  // index of the part's first element in the whole
  int64_t run = 1;    // elements of one run
  Dims extents;       // of the dims that number the runs
  Dims strides;       // of these dims in the whole
};

RandomPlan plan_random(const LocalCall& call, const Shape& local) {
  const size_t rank = local.size();
  const std::span<const int64_t> ints = call.ints;
  const Dims begin(ints.subspan(1, rank)), whole(ints.subspan(1 + rank, rank));
  const Dims strides = row_major_strides(whole);
  RandomPlan plan;
  plan.key = ints[0];
  // The dims further in are held whole, so that this dim's elements follow one another.
  bool runs_on = true;
  for (int dim = local.size() - 1; dim >= 0; --dim) {
    require(call, local[dim] == 0 || (begin[dim] >= 0 && begin[dim] + local[dim] <= whole[dim]),
            "the part is inside the whole");
    plan.first += begin[dim] * strides[dim];
    if (runs_on) {
      plan.run *= local[dim];
    } else {
      plan.extents.push_back(local[dim]);
      plan.strides.push_back(strides[dim]);
    }
    runs_on = runs_on && local[dim] == whole[dim];
  }
  std::reverse(plan.extents.begin(), plan.extents.end());
  std::reverse(plan.strides.begin(), plan.strides.end());
  return plan;
}

void sample(const RandomPlan& plan, uint64_t step, float* out) {
  const RandomStream stream(plan.key, step);
  Odometer<1> position(plan.extents, {plan.strides});
  const int64_t runs = element_count(plan.extents);
  for (int64_t i = 0; i < runs; ++i, position.step(), out += plan.run)
    stream.uniform_run(plan.first + position.offset(0), plan.run, out);
}

}  // namespace

BoundKernel bind_random_uniform(const LocalCall& call) {
  require(call, call.outputs.size() == 1, "gives 1 output");
  const TensorType& out = call.outputs[0];
  const bool in_loop = call.inputs.size() == 2;
  require_operands(call, in_loop ? 2 : 1, 1, 1 + 2 * out.shape.size());
  for (const TensorType& type : call.inputs)
    require(call, type == TensorType{DType::kI32, {}}, "takes step and iteration, each an i32[]");
  require(call, out.dtype == DType::kF32, "gives f32");
  const auto run = [plan = plan_random(call, out.shape), in_loop](const KernelBuffers& buffers) {
    const int32_t iteration = in_loop ? *input<int32_t>(buffers, 1) : 0;
    sample(plan, random_step(*input<int32_t>(buffers, 0), iteration), output<float>(buffers, 0));
  };
  return {run, Bytes(0)};
}

LocalWork work_of_random_uniform(const LocalCall& call) {
  constexpr double kOperationsOfANumber = 12;
  return work_over_operands(call, OperationClass::kElementwise,
                            kOperationsOfANumber * elements_of(call.outputs[0]));
}

}  // namespace tessera
