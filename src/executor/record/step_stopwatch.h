// Measures what one rank does in a step.
#pragma once

#include <optional>

#include "executor/record/recorder.h"
#include "executor/types.h"

namespace tessera {

/// Sums over the acts of the thread of a rank, without a trace.
///
///   threads  the thread of the rank
///   memory   allocates nothing
class StepStopwatch {
 public:
  using Time = Recorder::Time;

  static Time now() { return Recorder::now(); }
  void begin_step() { *this = {}; }

  /// An act of the thread has ended.
  void add_act(Task::Kind kind, Time begin) {
    if (kind == Task::Kind::kCompute) time_.kernels += since(begin);
    if (kind == Task::Kind::kExchange) time_.exposed += since(begin);
  }
  /// An exchange that may have been prefetched was advanced at its turn, from `begin` to now. The
  /// time from when its senders have filled the data until it is done is exposed.
  void add_due(bool is_acting, bool is_done, Time begin) {
    if (!due_since_ && (is_acting || is_done)) due_since_ = begin;
    if (!is_done) return;
    time_.exposed += since(*due_since_);
    due_since_.reset();
  }

  const RankTime& time() const { return time_; }

 private:
  static Seconds since(Time begin) {
    return Recorder::seconds_of(now()) - Recorder::seconds_of(begin);
  }

  RankTime time_;
  std::optional<Time> due_since_;
};

}  // namespace tessera
