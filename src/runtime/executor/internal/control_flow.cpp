#include "runtime/executor/internal/control_flow.h"

#include <cstring>

namespace tessera {
namespace {

void begin_carried_values(const BoundStep& step) {
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const CarriedValue& value = step.carried_values[i];
    const size_t bytes = value.bytes;
    if (bytes == 0) continue;
    if (value.begins_as_zero)
      std::memset(step.outputs[i], 0, bytes);
    else
      std::memcpy(step.outputs[i], step.inputs[i], bytes);
  }
}

/// Makes the operands of the step from `operand` on the variables of `region` from number `first`
/// on.
void lend_operands(const BoundStep& step, Region& region, int first, size_t operand) {
  for (; operand < step.inputs.size(); ++operand)
    region.lend(first++, const_cast<std::byte*>(step.inputs[operand]));
}

/// The results hold the carried values; each iteration replaces them by the next ones.
void run_while(const BoundStep& step, Region*& running) {
  begin_carried_values(step);
  for (Region* region : step.regions) {
    int variable = 0;
    for (std::byte* carried : step.outputs) region->lend(variable++, carried);
    lend_operands(step, *region, variable, step.outputs.size());
  }
  Region &condition = *step.regions[0], &body = *step.regions[1];
  const int64_t max_iterations = step.source.control->max_iterations;
  std::byte holds{};
  std::byte* const predicate = &holds;
  for (int64_t i = 0; max_iterations < 0 || i < max_iterations; ++i) {
    running = &condition;
    condition.run_region({{}, {&predicate, 1}, nullptr});
    // The body overwrites carried values that slower ranks may still read for their predicate.
    condition.wait_until_released();
    if (holds == std::byte{0}) break;
    running = &body;
    body.run_region({{}, {}, nullptr});
  }
  body.wait_until_released();
}

void run_if(const BoundStep& step, Region*& running) {
  running = step.regions[*step.inputs[0] != std::byte{0} ? 0 : 1];
  lend_operands(step, *running, 0, 1);
  running->run_region({{}, step.outputs, nullptr});
  running->wait_until_released();
}

}  // namespace

void run_control(const BoundStep& step, Region*& running) {
  if (step.source.control->kind == Control::Kind::kWhile)
    run_while(step, running);
  else
    run_if(step, running);
  running = nullptr;
}

}  // namespace tessera
