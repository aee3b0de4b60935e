// A step of a rank with a device: its thread goes through the order list stream by stream, begins
// what may begin, and ends what a device has ended. What a stream does no other one waits for, but
// for what it makes.
#include "executor/rank_streams.h"

#include <array>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "executor/rank_program.h"

namespace tessera {
namespace {

/// Of nobody: a stream of the device has come somewhere, and its rank is to look.
constexpr Message kLook{Message::Kind::kReady, -1, -1, 0, 0, -1};

}  // namespace

bool RankProgram::is_on_device(const Register& reg) const {
  return device_of(*program_.graph, reg.mesh) != DeviceKind::kHost;
}

/// requires  the mailbox is there
void RankProgram::make_streams() {
  std::array<std::vector<int>, kTaskStreams> places;
  const std::vector<TaskId>& order = program_.graph->order;
  for (size_t place = 0; place < order.size(); ++place)
    if (const Task& task = program_.task(order[place]); acts_in(task))
      places[static_cast<size_t>(stream_of(*program_.graph, task))].push_back(
          static_cast<int>(place));
  for (int i = 0; i < kTaskStreams; ++i) {
    if (i > 0 && places[i].empty()) continue;
    auto stream = std::make_unique<RankStream>(static_cast<TaskStream>(i), std::move(places[i]),
                                               [this] { mailbox_->push(kLook); });
    if (i > 0) stream->device = &device().stream(stream->stream);
    streams_.push_back(std::move(stream));
  }
  if (streams_.size() == 1)
    streams_.clear();  // all is done by the thread of the rank, in one order
}

bool RankProgram::act_on_streams(const StepCall& call) {
  for (const auto& stream : streams_) stream->next = 0;
  ahead_.begin_step();
  try {
    const bool went_on = go_on_streams(call);
    if (!went_on) let_streams_end();
    return went_on;
  } catch (...) {
    let_streams_end();
    throw;
  }
}

/// returns  false when the run stops
bool RankProgram::go_on_streams(const StepCall& call) {
  auto end = deadline();
  for (;;) {
    if (program_.stop->stopped()) return false;
    // Each round takes all messages, so that the looks of streams never fill the mailbox.
    receive_messages();
    bool has_moved = go_ahead(host_place(), call), is_done = true;
    for (const auto& stream : streams_) {
      if (!advance(*stream, call, has_moved)) return false;
      is_done = is_done && stream->is_done();
    }
    if (is_done) break;
    if (has_moved) {
      end = deadline();
      continue;
    }
    const auto begin = now();
    const bool in_time = wait_for_message(end);
    if (program_.stop->stopped()) return false;
    record_wait_of_streams(begin);
    if (in_time) continue;
    check_that_a_device_works();
    end = deadline();
  }
  place_.store(static_cast<int>(program_.graph->order.size()), std::memory_order_relaxed);
  return true;
}

/// Ends the act of a stream that has ended, and begins its next one.  returns  false when the run
/// stops
bool RankProgram::advance(RankStream& stream, const StepCall& call, bool& has_moved) {
  if (stream.is_acting && stream.ended.reached()) {
    end_on_device(stream, call);
    has_moved = true;
  }
  if (stream.is_acting || stream.is_done()) return true;
  const int place = stream.places[stream.next];
  const TaskId id = program_.graph->order[place];
  const Task& task = program_.task(id);
  Plan& next = plan(id);
  if (AheadExchange* exchange = ahead_.find(id)) {
    place_.store(place, std::memory_order_relaxed);
    if (exchange->state != AheadExchange::State::kDone)
      has_moved = advance(*exchange, call, TaskStream::kHost) || has_moved;
    if (exchange->state != AheadExchange::State::kDone) return true;
    has_moved = true;
    ++stream.next;
    return true;
  }
  if (!may_act(next)) return true;
  has_moved = true;
  place_.store(place, std::memory_order_relaxed);
  if (stream.device) {
    begin_on_device(stream, task, next, call);
    return true;
  }
  ++stream.next;
  return act(task, next, call);
}

/// Places of the order list that are over for the thread of the rank.
int RankProgram::host_place() const {
  const RankStream& host = *streams_.front();
  return host.is_done() ? static_cast<int>(program_.graph->order.size()) : host.places[host.next];
}

void RankProgram::begin_on_device(RankStream& stream, const Task& task, Plan& plan,
                                  const StepCall& call) {
  stream.begin = now();
  stream.is_acting = true;
  place_slots(task, plan, plan.actor.begin());
  if (task.kind == Task::Kind::kCopy)
    launch_copy(stream, task);
  else
    launch_steps(stream, plan, call);
  stream.device->record(stream.ended);
}

void RankProgram::launch_copy(RankStream& stream, const Task& task) const {
  const RegisterIndex from = task.inputs.front(), to = task.outputs.front();
  const Bytes size = byte_size(local_type(program_.reg(from), coordinate(program_.reg(from))));
  std::byte *source = current_[from], *target = current_[to];
  if (size == Bytes(0)) return;
  if (stream.stream == TaskStream::kCopyIn)
    stream.device->copy_in(target, source, size);
  else
    stream.device->copy_out(target, source, size);
}

/// An observer is to see each result before a later kernel writes over it: its bytes are copied
/// behind the kernel that made it.
void RankProgram::launch_steps(RankStream& stream, Plan& plan, const StepCall& call) {
  if (call.observer) stream.seen.clear();
  for (Step& step : plan.steps) {
    const KernelStep& source = *step.source;
    for (size_t i = 0; i < source.inputs.size(); ++i) step.inputs[i] = current_[source.inputs[i]];
    for (size_t i = 0; i < source.outputs.size(); ++i)
      step.outputs[i] = current_[source.outputs[i]];
    std::byte* workspace = source.workspace.is_none() ? nullptr : base_[source.workspace];
    if (step.kernel.run) stream.device->launch(step.kernel, {step.inputs, step.outputs, workspace});
    if (!call.observer) continue;
    for (size_t i = 0; i < source.outputs.size(); ++i) {
      const Register& reg = program_.reg(source.outputs[i]);
      const Bytes size = byte_size(local_type(reg, coordinate(reg)));
      auto& seen = stream.seen.emplace_back(RankStream::Seen{
          source.outputs[i], std::vector<std::byte>(static_cast<size_t>(size.value()))});
      if (size > Bytes(0)) stream.device->copy_out(seen.bytes.data(), step.outputs[i], size);
    }
  }
}

void RankProgram::end_on_device(RankStream& stream, const StepCall& call) {
  const int place = stream.places[stream.next];
  const TaskId id = program_.graph->order[place];
  const Task& task = program_.task(id);
  place_.store(place, std::memory_order_relaxed);
  stream.is_acting = false;
  stream.ended.rethrow();
  ++stream.next;
  if (call.observer && task.kind == Task::Kind::kCopy) observe(call, task.outputs.front());
  if (call.observer && task.kind == Task::Kind::kCompute)
    for (const RankStream::Seen& seen : stream.seen)
      (*call.observer)(rank_, seen.reg, coordinate(program_.reg(seen.reg)), seen.bytes.data());
  Plan& ended = plan(id);
  ended.actor.finish(sent_);
  for (const Message& message : sent_) send(message);
  sent_.clear();
  if (recorder_) record_act(task, ended.actor.iterations() - 1, stream.begin, stream.stream);
}

/// Named after what comes next in the order.
void RankProgram::record_wait_of_streams(Recorder::Time begin) {
  if (!recorder_) return;
  const RankStream* first = nullptr;
  for (const auto& stream : streams_)
    if (!stream->is_done() && (!first || stream->places[stream->next] < first->places[first->next]))
      first = stream.get();
  const TaskId id = program_.graph->order[first->places[first->next]];
  record_wait(program_.task(id), plan(id), begin);
}

/// Kernels that run use the memory of this program.
void RankProgram::let_streams_end() {
  for (const auto& stream : streams_) {
    while (stream->is_acting && !stream->ended.reached()) std::this_thread::yield();
    stream->is_acting = false;
  }
}

/// A kernel may take long; a rank that only waits for others may not.
void RankProgram::check_that_a_device_works() const {
  std::vector<std::string> reasons;
  for (const auto& stream : streams_) {
    if (stream->is_acting) return;
    if (!stream->is_done())
      reasons.push_back(wait_text(plan(program_.graph->order[stream->places[stream->next]])));
  }
  throw InternalError("waited " + to_text(program_.options.deadline) + ": " + join(reasons, "; "));
}

/// What an observer sees of a register that no kernel fills: on a device of a copy of it.
void RankProgram::observe_on_device(const StepCall& call, RegisterIndex index,
                                    const std::byte* data) const {
  const Register& reg = program_.reg(index);
  const Bytes size = byte_size(local_type(reg, coordinate(reg)));
  std::vector<std::byte> bytes(static_cast<size_t>(size.value()));
  if (size > Bytes(0)) device().copy_out(bytes.data(), data, size);
  (*call.observer)(rank_, index, coordinate(reg), bytes.data());
}

}  // namespace tessera
