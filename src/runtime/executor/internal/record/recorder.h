// Records what one rank does into memory that was allocated before.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/timeline/timeline.h"
#include "task_graph/actors/actor.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The events of one rank.
///
///   threads  the thread of its rank writes; other threads read while the rank is idle
///   memory   allocated in the constructor; events beyond the capacity are counted and dropped
class Recorder {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  struct SpanEvent {
    Span::Kind kind = Span::Kind::kAct;
    TaskStream stream = TaskStream::kHost;
    const Task* task = nullptr;
    const KernelStep* step = nullptr;  // set for a kernel
    int64_t iteration = 0;
    Time begin, end;
  };
  /// A message to or from another rank.
  struct MessageEvent {
    int program = 0;                           // the number of the program
    const Task* task = nullptr;                // the task of this rank that sent or received it
    TaskStream stream = TaskStream::kHost;     // the stream of the task
    const RegisterTable* registers = nullptr;  // in which the register of the message is
    RegisterIndex reg;
    Message message;
    Time time;
  };

  /// `capacity` limits the spans, the messages sent and the messages received, each.
  explicit Recorder(size_t capacity);

  /// In seconds of its clock.
  static Seconds seconds_of(Time time) {
    return Seconds(std::chrono::duration<double>(time.time_since_epoch()).count());
  }
  static Time now() { return Clock::now(); }
  void add(const SpanEvent& event) { put(spans_, event); }
  void add_sent(const MessageEvent& event) { put(sent_, event); }
  void add_arrived(const MessageEvent& event) { put(arrived_, event); }

  const std::vector<SpanEvent>& spans() const { return spans_; }
  const std::vector<MessageEvent>& sent() const { return sent_; }
  const std::vector<MessageEvent>& arrived() const { return arrived_; }
  int64_t lost() const { return lost_; }

 private:
  template <typename Event>
  void put(std::vector<Event>& events, const Event& event) {
    if (events.size() < events.capacity())
      events.push_back(event);
    else
      ++lost_;
  }

  std::vector<SpanEvent> spans_;
  std::vector<MessageEvent> sent_, arrived_;
  int64_t lost_ = 0;
};

}  // namespace tessera
