#include "runtime/executor/internal/rank_executor.h"

#include <algorithm>
#include <array>
#include <thread>

#include "base/text/text.h"

namespace tessera {
namespace {

/// A message to no actor: a stream of the device has reached an event, and its rank must check it.
constexpr Message kWakeUp{Message::Kind::kReady, -1, -1, 0, 0, -1};

}  // namespace

RankExecutor::RankExecutor(ProgramRanks& ranks, int rank_index)
    : ranks_(ranks),
      program_(ranks.context()),
      rank_index_(rank_index),
      endpoint_(*ranks.find(rank_index)),
      tasks_(program_),
      observer_(program_, rank_index, endpoint_.memory),
      messages_(ranks, rank_index, tasks_),
      exchanger_(ranks, endpoint_.memory, tasks_, messages_, observer_),
      wait_(ranks, rank_index, messages_, exchanger_),
      launcher_(endpoint_.memory, exchanger_, messages_, observer_, wait_),
      report_(ranks, rank_index, tasks_) {}

void RankExecutor::bind(const RankRegions& regions) {
  const TaskBinder binder(program_, rank_index_, endpoint_.memory, regions);
  for (TaskId id : program_.graph->tasks.indices()) tasks_.add(binder.bind(id));
  endpoint_.answers.plan();
  exchanger_.plan();
  messages_.open();
  make_streams();
}

/// A stream of the device exists when it has tasks; the stream of the host always exists.
void RankExecutor::make_streams() {
  std::array<RankStream*, kTaskStreams> streams{};
  const auto stream_of = [&](TaskStream which) -> RankStream& {
    RankStream*& stream = streams[static_cast<size_t>(which)];
    if (stream) return *stream;
    DeviceStream* queue =
        which == TaskStream::kHost ? nullptr : &program_.devices->stream(rank_index_, which);
    streams_.push_back(
        std::make_unique<RankStream>(which, queue, [this] { endpoint_.mailbox->push(kWakeUp); }));
    return *(stream = streams_.back().get());
  };
  stream_of(TaskStream::kHost);
  launcher_.between_kernels([this] { advance_beside_host(); });
  const std::vector<TaskId>& order = program_.graph->order;
  for (size_t position = 0; position < order.size(); ++position) {
    const BoundTask& task = tasks_[order[position]];
    if (endpoint_.memory.is_in(task.task.mesh))
      stream_of(task.stream).entries.push_back({task.id, static_cast<int>(position)});
  }
}

void RankExecutor::run(const StepCall& call) {
  try {
    run_region(call);
    if (!call.times.empty()) call.times[rank_index_] = stopwatch_.time();
  } catch (const RunStopped&) {
  } catch (...) {
    const int position = endpoint_.position.load(std::memory_order_relaxed);
    ranks_.fail({program_.ranks[rank_index_], program_.task(program_.graph->order[position]).name,
                 running_op(), std::current_exception()});
  }
}

void RankExecutor::run_region(const StepCall& call) {
  observer_.set(call.observer);
  launcher_.begin_step(call);
  stopwatch_.begin_step();
  exchanger_.prefetches().begin_step();
  for (const auto& stream : streams_) stream->next = 0;
  try {
    run_streams();
  } catch (...) {
    finish_launched_work();
    throw;
  }
  stopwatch_.pause();
  set_position(static_cast<int>(program_.graph->order.size()));
}

void RankExecutor::run_streams() {
  // Each round takes all messages when there are streams of a device, so that their wake-ups never
  // fill the mailbox; a host alone takes them when it waits.
  const bool takes_messages = streams_.size() > 1 || !exchanger_.prefetches().is_empty();
  while (!is_done()) {
    wait_.check_stop();
    if (takes_messages) messages_.receive();
    wait_.until([this] { return advance_streams(); }, [this] { return describe_streams(); });
  }
}

bool RankExecutor::is_done() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream->is_done(); });
}

///   returns  whether any stream progressed
bool RankExecutor::advance_streams() {
  PrefetchQueue& prefetches = exchanger_.prefetches();
  bool has_moved = false;
  if (!prefetches.is_empty()) {
    stopwatch_.pause();  // a prefetch that copies is no part of the act before it
    const RankStream& host = *streams_.front();
    prefetches.set_position(host.is_done() ? static_cast<int>(program_.graph->order.size())
                                           : host.next_entry().position);
    has_moved = prefetches.advance();
  }
  has_moved = advance_devices() || has_moved;  // first: an act of the host takes its time here
  has_moved = advance(*streams_.front()) || has_moved;
  if (has_moved) return true;
  stopwatch_.pause();
  if (messages_.is_recording() && !is_waiting_) {
    is_waiting_ = true;
    wait_begin_ = messages_.now();
  }
  return false;
}

/// While an act of the host runs: prefetches and the streams of copies and devices go on.
void RankExecutor::advance_beside_host() {
  if (streams_.size() == 1 && exchanger_.prefetches().is_empty()) return;
  const int position = endpoint_.position.load(std::memory_order_relaxed);
  messages_.receive();
  if (!exchanger_.prefetches().is_empty()) exchanger_.prefetches().advance();
  advance_devices();
  set_position(position);
}

/// Begins all that may begin on the streams beside the host.
bool RankExecutor::advance_devices() {
  bool has_moved = false;
  for (const auto& stream : streams_)
    while (!stream->is_host() && advance(*stream)) has_moved = true;
  return has_moved;
}

/// Ends the act of a stream that is complete, and begins the next one.
bool RankExecutor::advance(RankStream& stream) {
  if (stream.is_done()) return false;
  BoundTask& task = tasks_[stream.next_entry().task];
  if (stream.is_acting) {
    if (!stream.completion.reached()) return false;
    record_wait_before(task);
    finish(stream, task);
    return true;
  }
  if (stream.is_host()) set_position(stream.next_entry().position);
  if (Prefetch* prefetch = exchanger_.prefetches().find(task.id))
    return advance_prefetch(stream, *prefetch);
  if (!tasks_.may_act(task)) return false;
  record_wait_before(task);
  launch(stream, task);
  if (stream.completion.reached()) finish(stream, task);
  return true;
}

/// Advances an exchange that may have been prefetched, at its turn.
bool RankExecutor::advance_prefetch(RankStream& stream, Prefetch& prefetch) {
  stopwatch_.pause();
  const auto begin = stopwatch_.now();
  const bool has_moved = exchanger_.prefetches().advance_due(prefetch);
  stopwatch_.add_due(prefetch.state == Prefetch::State::kActing,
                     prefetch.state == Prefetch::State::kDone, begin);
  if (prefetch.state != Prefetch::State::kDone) return has_moved;
  record_wait_before(tasks_[prefetch.task]);
  ++stream.next;
  return true;
}

void RankExecutor::launch(RankStream& stream, BoundTask& task) {
  set_position(stream.next_entry().position);
  stream.begin = messages_.now();
  if (stream.is_host()) stopwatch_.begin_act(task.task.kind);
  stream.is_acting = true;
  ActDelay* delay = stream.is_host() ? program_.options.delay.get() : nullptr;
  if (delay) delay->begin(program_.ranks[rank_index_], *program_.graph, task.id);
  launcher_.launch(stream, task);
  if (delay) delay->end(program_.ranks[rank_index_], *program_.graph, task.id);
}

void RankExecutor::finish(RankStream& stream, BoundTask& task) {
  if (!stream.is_host()) set_position(stream.next_entry().position);
  stream.is_acting = false;
  stream.completion.rethrow();
  ++stream.next;
  if (task.task.kind == Task::Kind::kCopy) {
    const RegisterIndex output = task.task.outputs.front();
    observer_.show(output, endpoint_.memory.current(output));
  }
  observer_.show_copies(stream);
  messages_.finish_act(task, stream.begin, stream.stream);
}

/// Waits after a failure, because kernels in flight use the memory of this program.
void RankExecutor::finish_launched_work() {
  for (const auto& stream : streams_) {
    while (stream->is_acting && !stream->completion.reached()) std::this_thread::yield();
    stream->is_acting = false;
  }
}

/// Records the wait of all streams, which ends when `task` continues.
void RankExecutor::record_wait_before(const BoundTask& task) {
  if (!is_waiting_) return;
  is_waiting_ = false;
  messages_.record_wait(task, wait_begin_);
}

/// Returns "" while a device works: a kernel may take long, but a rank that only waits for others
/// may not.
std::string RankExecutor::describe_streams() {
  std::vector<std::string> reasons;
  for (const auto& stream : streams_) {
    if (stream->is_acting) return "";
    if (stream->is_done()) continue;
    const BoundTask& task = tasks_[stream->next_entry().task];
    const Prefetch* prefetch = exchanger_.prefetches().find(task.id);
    const bool is_prefetched = prefetch && prefetch->state == Prefetch::State::kActing;
    reasons.push_back(is_prefetched ? awaited_text(task) : report_.of_task(task));
  }
  return join(reasons, "; ");
}

bool RankExecutor::is_quiescent() {
  messages_.receive();
  return tasks_.is_quiescent();
}

void RankExecutor::wait_until_released() {
  wait_.check_stop();
  if (tasks_.are_outputs_released()) return;
  const auto begin = messages_.now();
  wait_.until([this] { return tasks_.are_outputs_released(); },
              [this] { return report_.of_outputs(); });
  messages_.record_wait(tasks_[program_.graph->order.back()], begin);
}

}  // namespace tessera
