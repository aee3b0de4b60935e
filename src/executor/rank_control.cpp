// While and If: a rank runs their regions as it runs programs, a iteration as a step, inside of one
// act.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "executor/rank_program.h"

namespace tessera {

bool RankProgram::run_control(Step& step) {
  const bool went_on =
      step.source->control->kind == Control::Kind::kWhile ? run_while(step) : run_if(step);
  if (went_on) region_ = nullptr;  // else it says where the run stopped
  return went_on;
}

/// The carried values live in the results, in which each iteration leaves the next ones.
bool RankProgram::run_while(Step& step) {
  const Control& control = *step.source->control;
  const size_t carried = step.outputs.size();
  for (size_t i = 0; i < carried; ++i) {
    const auto bytes = static_cast<size_t>(step.carried[i].bytes);
    if (bytes == 0) continue;
    if (step.carried[i].begins_as_zero)
      std::memset(step.outputs[i], 0, bytes);
    else
      std::memcpy(step.outputs[i], step.inputs[i], bytes);
  }
  for (RankProgram* region : step.regions) {
    for (size_t i = 0; i < carried; ++i) region->lend(static_cast<int>(i), step.outputs[i]);
    for (size_t i = carried; i < step.inputs.size(); ++i)
      region->lend(static_cast<int>(i), const_cast<std::byte*>(step.inputs[i]));
  }
  RankProgram &condition = *step.regions[0], &body = *step.regions[1];
  std::byte holds{};
  std::byte* const predicate = &holds;
  for (int64_t iteration = 0; control.max_iterations < 0 || iteration < control.max_iterations;
       ++iteration) {
    region_ = &condition;
    // The body writes over carried values that slower ranks may still read for their predicate.
    if (!condition.act_in_order({{}, {&predicate, 1}, nullptr}) || !condition.drain()) return false;
    if (holds == std::byte{0}) break;
    region_ = &body;
    if (!body.act_in_order({{}, {}, nullptr})) return false;
  }
  return body.drain();
}

bool RankProgram::run_if(Step& step) {
  region_ = step.regions[*step.inputs[0] != std::byte{0} ? 0 : 1];
  for (size_t i = 1; i < step.inputs.size(); ++i)
    region_->lend(static_cast<int>(i) - 1, const_cast<std::byte*>(step.inputs[i]));
  return region_->act_in_order({{}, step.outputs, nullptr}) && region_->drain();
}

void RankProgram::lend(int variable, std::byte* memory) {
  for (RegisterIndex i : base_.indices()) {
    const Register& reg = program_.reg(i);
    if (reg.storage == Register::Storage::kVariable && reg.variable == variable)
      base_[i] = current_[i] = memory;
  }
}

bool RankProgram::has_drained() const {
  return std::all_of(plans_.begin(), plans_.end(), [](const Plan& plan) {
    const auto& outputs = plan.actor.description().outputs;
    return std::all_of(outputs.begin(), outputs.end(),
                       [&](const OutPort& port) { return plan.actor.is_released(port.reg, -1); });
  });
}

bool RankProgram::drain() {
  if (has_drained()) return !program_.stop->stopped();
  const auto begin = now();
  const auto end = deadline();
  while (!has_drained()) {
    const bool in_time = wait_for_message(end);
    if (program_.stop->stopped()) return false;
    if (!in_time)
      throw InternalError("waited " + to_text(program_.options.deadline) + ": " + drain_text());
    receive_messages();
  }
  const TaskId last = program_.graph->order.back();
  record_wait(program_.task(last), plan(last), begin);
  return !program_.stop->stopped();
}

void RankProgram::wake() {
  mailbox_->wake();
  for (const auto& [control, regions] : regions_)
    for (RankProgram* region : regions) region->wake();
}

/// The innermost.
std::string RankProgram::failing_op() const {
  const std::string inner = region_ ? region_->failing_op() : "";
  return inner.empty() && op_ ? *op_ : inner;
}

}  // namespace tessera
