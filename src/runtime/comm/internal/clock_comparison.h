// Measures the difference of the clocks of two processes, so that a trace of all processes has one
// time.
#pragma once

#include <atomic>
#include <chrono>
#include <span>
#include <vector>

#include "base/units.h"
#include "runtime/comm/internal/frame_channel.h"
#include "runtime/comm/internal/keep_alive.h"

namespace tessera {

struct ClockReading {
  Seconds ahead{0};  // of the other clock
  Seconds error{0};  // the largest possible error
};

class ClockComparison {
 public:
  ClockComparison(FrameChannel& channel, KeepAlive& keep_alive);

  /// Asks another process `tries` times for its time and uses the answer with the shortest round
  /// trip. The other clock was read during the round trip, so half of it bounds the error.
  ///   throws  as KeepAlive::wait_until
  ///   source  Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989
  ClockReading compare(int with, int tries, Seconds deadline);

 private:
  using Clock = FrameChannel::Clock;
  struct Question {
    int from = 0;
    Clock::time_point arrived;
  };
  struct Answer {
    FrameKind kind = FrameKind::kClockAnswer;
    Clock::time_point time;
  };
  bool answer_questions();
  void take_answer(std::span<const std::byte> frame);

  FrameChannel& channel_;
  KeepAlive& keep_alive_;
  std::vector<Question> questions_;   // guarded by the lock of the channel
  Clock::time_point told_, arrived_;  // of the last answer
  std::atomic<bool> has_answer_{false};
};

}  // namespace tessera
