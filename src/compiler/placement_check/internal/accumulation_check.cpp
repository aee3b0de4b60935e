#include "compiler/placement_check/internal/accumulation_check.h"

#include <algorithm>
#include <iterator>

#include "compiler/placement_check/internal/refuse.h"

namespace tessera {
namespace {

std::string_view combining_kernel(ReduceOp reduce) {
  switch (reduce) {
    case ReduceOp::kSum: return "binary.add";
    case ReduceOp::kMax: return "binary.max";
    case ReduceOp::kMin: return "binary.min";
    case ReduceOp::kProd: return "binary.mul";
    case ReduceOp::kAny: return "binary.or";
    case ReduceOp::kAll: return "binary.and";
  }
  throw InternalError("unknown reduction");
}

}  // namespace

void AccumulationCheck::check(const KernelStep& step) {
  if (step.inputs.size() != 2 || step.outputs.size() != 1)
    refuse("'" + step.op + "' adds two to one");
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  const SymbolicPlacement &a = placements_.at(step.inputs[0]), &b = placements_.at(step.inputs[1]);
  check_operands(step, a, b);
  SymbolicPlacement sum{a.value, a.attr, {}};
  std::merge(a.summed.begin(), a.summed.end(), b.summed.begin(), b.summed.end(),
             std::back_inserter(sum.summed));
  const auto twice = std::adjacent_find(sum.summed.begin(), sum.summed.end());
  if (twice != sum.summed.end())
    refuse("'" + step.op + "' adds the partial value of micro-batch " + std::to_string(*twice) +
           " twice");
  if (std::ssize(sum.summed) == axis.micro_batches()) {
    sum.attr.partial = axis.over_ranks(std::move(sum.attr.partial));
    sum.summed.clear();
  }
  placements_.fill_from(step.inputs[0], step.outputs[0], std::move(sum));
}

void AccumulationCheck::check_operands(const KernelStep& step, const SymbolicPlacement& a,
                                       const SymbolicPlacement& b) const {
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  if (a.chunk.dim >= 0 || b.chunk.dim >= 0) refuse("'" + step.op + "' adds chunks");
  if (a.value != b.value)
    refuse("'" + step.op + "' adds " + program_.quoted(step.inputs[0]) + " and " +
           program_.quoted(step.inputs[1]) + ", which are not partial values of one value");
  if (!axis.is_partial_in(a.attr) || !(a.attr == b.attr))
    refuse("'" + step.op + "' adds '" + to_text(a.attr) + "' and '" + to_text(b.attr) +
           "', which are not both partial over micro-batches in the same placement");
  const ReduceOp reduce = MicroBatchAxis::partial_axis(a.attr).reduce;
  if (step.call->kernel != combining_kernel(reduce) || !step.call->ints.empty() ||
      !step.call->reals.empty())
    refuse("'" + step.op + "' takes the " + std::string(to_text(reduce)) +
           " over micro-batches and calls " + step.call->kernel);
}

}  // namespace tessera
