#include <algorithm>

#include "base/clock_time.h"
#include "base/error.h"
#include "executor/rank_program.h"

namespace tessera {
void RankProgram::run(const StepCall& call) {
  try {
    act_in_order(call);
  } catch (...) {
    const Task& task = program_.task(program_.graph->order[place_.load(std::memory_order_relaxed)]);
    program_.fail({rank_, task.name, failing_op(), std::current_exception()});
  }
}

/// returns  false when the run stops
bool RankProgram::act_in_order(const StepCall& call) {
  if (!streams_.empty()) return act_on_streams(call);
  ahead_.begin_step();
  const std::vector<TaskId>& order = program_.graph->order;
  for (size_t place = 0; place < order.size(); ++place) {
    place_.store(static_cast<int>(place), std::memory_order_relaxed);
    if (!acts_in(program_.task(order[place]))) continue;
    const Task& task = program_.task(order[place]);
    Plan& next = plan(order[place]);
    if (!ahead_.is_empty()) {
      go_ahead(static_cast<int>(place), call);
      if (AheadExchange* exchange = ahead_.find(order[place])) {
        if (!finish_ahead(*exchange, call)) return false;
        continue;
      }
    }
    if (!wait_to_act(task, next, call) || !act(task, next, call)) return false;
  }
  place_.store(static_cast<int>(order.size()), std::memory_order_relaxed);
  return true;
}

std::chrono::steady_clock::time_point RankProgram::deadline() const {
  return std::chrono::steady_clock::now() + clock_time(program_.options.deadline);
}

bool RankProgram::may_act(const Plan& plan) const {
  return plan.actor.ready() && are_handed_back(plan);
}

/// May it write over what it writes over?
bool RankProgram::are_handed_back(const Plan& plan) const {
  for (const Overwrite& overwrite : plan.overwrites)
    if (!this->plan(program_.actors->task_of(overwrite.producer))
             .actor.is_released(overwrite.reg, plan.actor.description().id))
      return false;
  return true;
}

/// returns  false when the run stops
bool RankProgram::wait_to_act(const Task& task, const Plan& plan, const StepCall& call) {
  if (program_.stop->stopped()) return false;
  if (may_act(plan)) return true;
  const auto begin = now();
  const auto end = deadline();
  for (;;) {
    receive_messages();
    if (may_act(plan)) {
      record_wait(task, plan, begin);
      return true;
    }
    if (go_ahead(place_.load(std::memory_order_relaxed), call)) continue;
    const bool in_time = wait_for_message(end);
    if (program_.stop->stopped()) return false;
    if (!in_time)
      throw InternalError("waited " + to_text(program_.options.deadline) + ": " + wait_text(plan));
  }
}

void RankProgram::receive_messages() {
  Message message;
  while (mailbox_->take(message)) {
    if (message.to < 0) continue;  // a stream has come to an event
    plan(program_.actors->task_of(message.to)).actor.receive(message);
    if (recorder_) recorder_->add_arrived({&program_, message, Recorder::now()});
  }
}

bool RankProgram::drained() {
  receive_messages();
  return std::all_of(plans_.begin(), plans_.end(),
                     [](const Plan& plan) { return plan.actor.is_quiescent(); });
}

/// returns  false when the run stops inside
bool RankProgram::act(const Task& task, Plan& plan, const StepCall& call) {
  const auto begin = now();
  const Act& act = plan.actor.begin();
  place_slots(task, plan, act);
  switch (task.kind) {
    case Task::Kind::kFeed: run_feed(task, plan, call); break;
    case Task::Kind::kCompute:
      if (!run_steps(task, plan, call)) return false;
      break;
    case Task::Kind::kExchange:
      if (!run_pulling(task, plan, act, call)) return false;
      break;
    case Task::Kind::kFetch: run_fetch(plan, call); break;
    case Task::Kind::kCopy:
      throw InternalError("a copy between a device and its host runs on a stream");
  }
  end_act(task, plan, begin, TaskStream::kHost);
  return true;
}

void RankProgram::end_act(const Task& task, Plan& plan, Recorder::Time begin, TaskStream stream) {
  plan.actor.finish(sent_);
  for (const Message& message : sent_) send(message);
  sent_.clear();
  if (recorder_) record_act(task, plan.actor.act().iteration, begin, stream);
}

std::byte* RankProgram::slot_data(RegisterIndex reg, int slot) const {
  return base_[reg] + slot * slot_stride(program_.reg(reg)).value();
}

/// Points the registers of the task's ports to the slots of the act; what only this task knows
/// stays in its first slot.
void RankProgram::place_slots(const Task& task, const Plan& plan, const Act& act) {
  for (size_t i = 0; i < task.outputs.size(); ++i)
    current_[task.outputs[i]] = slot_data(task.outputs[i], act.output_slots[i]);
  if (task.kind == Task::Kind::kExchange) return;  // its ports are registers of the senders
  for (size_t i = 0; i < plan.actor.description().inputs.size(); ++i)
    current_[task.inputs[i]] = slot_data(task.inputs[i], act.input_slots[i]);
}

bool RankProgram::run_steps(const Task& task, Plan& plan, const StepCall& call) {
  auto begin = now();
  for (Step& step : plan.steps) {
    const KernelStep& source = *step.source;
    op_ = &source.op;
    for (size_t i = 0; i < source.inputs.size(); ++i) step.inputs[i] = current_[source.inputs[i]];
    for (size_t i = 0; i < source.outputs.size(); ++i)
      step.outputs[i] = current_[source.outputs[i]];
    std::byte* workspace = source.workspace.is_none() ? nullptr : base_[source.workspace];
    if (step.kernel.run) step.kernel.run({step.inputs, step.outputs, workspace});
    if (source.control && !run_control(step)) return false;
    if (recorder_) begin = record_kernel(task, source, plan, begin);
    for (RegisterIndex reg : source.outputs) observe(call, reg);
    if (!ahead_.is_empty())
      receive_messages(), go_ahead(place_.load(std::memory_order_relaxed), call);
  }
  op_ = nullptr;
  return true;
}

/// Points a plan to the slots that its senders in this process filled.
void RankProgram::find_sources(const Task& task, Plan& plan, const Act& act) const {
  Pulling& pulling = plan.pulling;
  for (size_t port = 0; port < pulling.senders.size(); ++port)
    if (const auto& sender = program_.ranks[pulling.senders[port]])
      pulling.sources[port] = sender->slot_data(task.inputs[0], act.input_slots[port]);
}

/// returns  false when the run stops inside
bool RankProgram::run_pulling(const Task& task, Plan& plan, const Act& act, const StepCall& call) {
  Pulling& pulling = plan.pulling;
  find_sources(task, plan, act);
  const RegisterIndex output = task.outputs[0];
  std::byte* target = current_[output];
  if (pulling.identity) {
    const TensorType type = local_type(program_.reg(output), coordinate(program_.reg(output)));
    fill_with_identity(type.dtype, *pulling.identity, target, element_count(type.shape));
  }
  if (pulling.collective) {
    if (!run_collective(task, plan, target, call)) return false;
  } else if (pulling.far) {
    if (!combine_far(task, plan, target, call)) return false;
  } else {
    for (const BoxCombine& box : pulling.boxes) box.run(target, pulling.sources);
  }
  observe(call, output);
  return true;
}

void RankProgram::run_feed(const Task& task, const Plan& plan, const StepCall& call) {
  for (const Transfer& transfer : plan.transfers) {
    const std::byte* whole = call.inputs[transfer.tensor];
    transfer.copy.run(current_[transfer.reg], {&whole, 1});
  }
  for (RegisterIndex reg : task.outputs) observe(call, reg);
}

void RankProgram::run_fetch(const Plan& plan, const StepCall& call) {
  for (const Transfer& transfer : plan.transfers) {
    const std::byte* part = current_[transfer.reg];
    transfer.copy.run(call.results[transfer.tensor], {&part, 1});
  }
}

void RankProgram::observe(const StepCall& call, RegisterIndex reg, const std::byte* data) const {
  if (!call.observer) return;
  if (is_on_device(program_.reg(reg))) return observe_on_device(call, reg, data);
  (*call.observer)(rank_, reg, coordinate(program_.reg(reg)), data);
}

void RankProgram::send(const Message& message) {
  const int owner = program_.actors->rank_index_of(message.to);
  if (owner == index_) {
    plan(program_.actors->task_of(message.to)).actor.receive(message);
    return;
  }
  if (recorder_) recorder_->add_sent({&program_, message, Recorder::now()});
  if (program_.is_here(owner))
    program_.ranks[owner]->mailbox_->push(message);
  else
    program_.network->programs().send(program_.members[owner], program_.open->number(), message);
}

}  // namespace tessera
