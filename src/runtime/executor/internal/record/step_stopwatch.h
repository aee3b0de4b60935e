// Measures what one rank does in a step.
#pragma once

#include <optional>

#include "runtime/executor/internal/record/recorder.h"
#include "runtime/memory/run_types.h"

namespace tessera {

/// Sums over the thread of a rank, without a trace. A read of the clock takes about as long as a
/// small act, so the clock is read only when the thread begins another kind of act or waits: what
/// it does between two acts of one kind counts as theirs.
///
///   threads  the thread of the rank
///   memory   allocates nothing
class StepStopwatch {
 public:
  using Time = Recorder::Time;

  explicit StepStopwatch(Time (*clock)() = &Recorder::now) : clock_(clock) {}

  Time now() const { return clock_(); }
  void begin_step() { *this = StepStopwatch(clock_); }

  /// An act begins on the thread. What the thread did before ends here.
  void begin_act(Task::Kind kind) {
    if (kind != kind_) switch_to(kind);
  }
  /// The thread waits, or the step has ended.
  void pause() {
    if (kind_) switch_to(std::nullopt);
  }
  /// An exchange that may have been prefetched was advanced at its turn, from `begin` to now. The
  /// time from when its senders have filled the data until it is done is exposed.
  ///   requires  paused
  void add_due(bool is_acting, bool is_done, Time begin) {
    if (!due_since_ && (is_acting || is_done)) due_since_ = begin;
    if (!is_done) return;
    time_.exposed += between(*due_since_, now());
    due_since_.reset();
  }

  ///   requires  paused
  const RankTime& time() const { return time_; }

 private:
  static Seconds between(Time begin, Time end) {
    return Recorder::seconds_of(end) - Recorder::seconds_of(begin);
  }
  void switch_to(std::optional<Task::Kind> kind) {
    const Time end = now();
    if (kind_ == Task::Kind::kCompute) time_.kernels += between(since_, end);
    if (kind_ == Task::Kind::kExchange) time_.exposed += between(since_, end);
    since_ = end;
    kind_ = kind;
  }

  Time (*clock_)();
  RankTime time_;
  std::optional<Task::Kind> kind_;  // of the act since since_; none: the thread waits
  Time since_ = {};
  std::optional<Time> due_since_;
};

}  // namespace tessera
