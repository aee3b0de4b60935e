#include "runtime/executor/internal/task_launcher.h"

#include "runtime/executor/internal/record/wait_report.h"

namespace tessera {

void TaskLauncher::launch(RankStream& stream, BoundTask& task) {
  memory_.select_slots(task.task, task.actor.begin());
  switch (task.task.kind) {
    case Task::Kind::kFeed: run_feed(task); break;
    case Task::Kind::kCompute: launch_steps(stream, task); break;
    case Task::Kind::kExchange: run_exchange(task); break;
    case Task::Kind::kFetch: run_fetch(task); break;
    case Task::Kind::kCopy: launch_copy(stream, task.task); break;
  }
  stream.record_completion();
}

void TaskLauncher::launch_steps(RankStream& stream, BoundTask& task) {
  auto begin = messages_.now();
  for (BoundStep& step : task.steps) {
    const KernelStep& source = step.source;
    if (stream.is_host()) running_step_ = &source;
    for (size_t i = 0; i < step.inputs.size(); ++i)
      step.inputs[i] = memory_.current(step.input_registers[i]);
    for (size_t i = 0; i < step.outputs.size(); ++i)
      step.outputs[i] = memory_.current(step.output_registers[i]);
    if (step.kernel.run) stream.launch(step.kernel, step.buffers(memory_.workspace(source)));
    if (source.control) run_control(step, running_region_);
    if (stream.is_host() && messages_.is_recording())
      begin = messages_.record_kernel(task, source, begin);
    for (size_t i = 0; i < step.outputs.size(); ++i)
      observer_.show_result(stream, step.output_registers[i], step.outputs[i]);
    if (stream.is_host() && advance_) advance_();
  }
  if (stream.is_host()) running_step_ = nullptr;
}

/// Launches a copy between a device, or a file, and its host.
void TaskLauncher::launch_copy(RankStream& stream, const Task& task) const {
  const RegisterIndex from = task.inputs.front(), to = task.outputs.front();
  const Bytes size = memory_.bytes_of(from);
  if (size == Bytes(0)) return;
  if (memory_.is_on_host(to))
    stream.queue->copy_out(memory_.current(to), memory_.current(from), size);
  else
    stream.queue->copy_in(memory_.current(to), memory_.current(from), size);
}

void TaskLauncher::run_exchange(BoundTask& task) {
  exchanger_.start(task);
  wait_.until([this] { return exchanger_.advance(); }, [&task] { return awaited_text(task); });
  for (RegisterIndex output : task.task.outputs) observer_.show(output, memory_.current(output));
}

void TaskLauncher::run_feed(const BoundTask& task) {
  for (const BoundTransfer& transfer : task.transfers) {
    const std::byte* whole = call_.inputs[transfer.tensor];
    transfer.copy.run(memory_.current(transfer.reg), {&whole, 1});
  }
  for (RegisterIndex reg : task.task.outputs) observer_.show(reg, memory_.current(reg));
}

void TaskLauncher::run_fetch(const BoundTask& task) {
  for (const BoundTransfer& transfer : task.transfers) {
    const std::byte* part = memory_.current(transfer.reg);
    transfer.copy.run(call_.results[transfer.tensor], {&part, 1});
  }
}

std::string TaskLauncher::running_op() const {
  const std::string inner = running_region_ ? running_region_->running_op() : "";
  return inner.empty() && running_step_ ? running_step_->op.text() : inner;
}

}  // namespace tessera
