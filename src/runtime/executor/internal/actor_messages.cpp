#include "runtime/executor/internal/actor_messages.h"

namespace tessera {

void ActorMessages::open() {
  endpoint_.mailbox = std::make_unique<Mailbox>(tasks_.inbound_capacity());
  outgoing_.reserve(tasks_.outbound_capacity());
}

void ActorMessages::receive() {
  Message message;
  while (endpoint_.mailbox->take(message)) {
    if (message.to < 0) continue;  // a stream of a device has reached an event
    tasks_.at(message.to).actor.receive(message);
    if (recorder_) recorder_->add_arrived(event_of(message, message.to));
  }
}

/// The act is recorded last, so that the record shows its messages within it.
void ActorMessages::finish_act(BoundTask& task, Recorder::Time begin, TaskStream stream) {
  task.actor.finish(outgoing_);
  for (const Message& message : outgoing_) send(message);
  outgoing_.clear();
  if (!recorder_) return;
  const auto kind = task.task.kind == Task::Kind::kCompute ? Span::Kind::kAct : Span::Kind::kCopy;
  recorder_->add(
      {kind, stream, &task.task, nullptr, task.actor.act().iteration, begin, Recorder::now()});
}

void ActorMessages::record_wait(const BoundTask& task, Recorder::Time begin) {
  if (recorder_)
    recorder_->add({Span::Kind::kWait, TaskStream::kHost, &task.task, nullptr,
                    task.actor.iterations(), begin, Recorder::now()});
}

Recorder::Time ActorMessages::record_kernel(const BoundTask& task, const KernelStep& step,
                                            Recorder::Time begin) {
  const auto end = now();
  if (recorder_)
    recorder_->add({Span::Kind::kKernel, TaskStream::kHost, &task.task, &step,
                    task.actor.iterations() - 1, begin, end});
  return end;
}

void ActorMessages::send(const Message& message) {
  const int receiver = program_.actors->rank_index_of(message.to);
  if (receiver == rank_index_) {
    tasks_.at(message.to).actor.receive(message);
    return;
  }
  if (recorder_) recorder_->add_sent(event_of(message, message.from));
  if (program_.is_here(receiver))
    ranks_.find(receiver)->mailbox->push(message);
  else
    program_.network->programs().send(program_.process_of[receiver], program_.number, message);
}

Recorder::MessageEvent ActorMessages::event_of(const Message& message, ActorId actor) const {
  return {program_.number,
          &tasks_.at(actor).task,
          tasks_.at(actor).stream,
          &program_.graph->registers,
          program_.actors->register_of(message.reg),
          message,
          Recorder::now()};
}

}  // namespace tessera
