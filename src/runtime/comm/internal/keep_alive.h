// Heartbeats of processes that work for longer than a deadline, such as a process that writes a
// checkpoint, and waits for other processes that consider them.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "base/units.h"
#include "runtime/comm/internal/frame_channel.h"
#include "runtime/comm/stop_state.h"

namespace tessera {

/// Processes wait for process 0, which waits for all others. So a process sends its heartbeats to
/// process 0, and process 0 forwards them to all.
class KeepAlive {
 public:
  using Clock = FrameChannel::Clock;
  /// now  the clock of heartbeats and deadlines; null: Clock
  KeepAlive(FrameChannel& channel, const StopState& stop,
            std::function<Clock::time_point()> now = nullptr);

  /// While it exists, the process sends heartbeats and the others wait for it.
  class BusyScope {
   public:
    /// `deadline` is that of the processes that may wait.
    BusyScope(KeepAlive& keep_alive, Seconds deadline);
    ~BusyScope() { keep_alive_.busy_.fetch_sub(1, std::memory_order_relaxed); }
    BusyScope(const BusyScope&) = delete;
    BusyScope& operator=(const BusyScope&) = delete;

   private:
    KeepAlive& keep_alive_;
  };

  /// Sends a heartbeat when one is due.  threads  the progress thread
  void send_heartbeat();

  /// Waits for another process until `is_over()`. The deadline counts from the last heartbeat.
  ///   describe  completes "waited 2 s for ..."
  ///   throws    the failure that stops the run; InternalError at the deadline
  void wait_until(const std::function<bool()>& is_over, Seconds deadline,
                  const std::function<std::string()>& describe);

  /// When the last heartbeat came.  threads  any
  Clock::time_point last_heard() const;

 private:
  void limit_interval(Seconds deadline);

  FrameChannel& channel_;
  const StopState& stop_;
  const std::function<Clock::time_point()> now_;
  std::atomic<int> busy_{0};
  std::atomic<Clock::rep> last_heard_{0};
  std::atomic<Clock::rep> interval_;  // between two heartbeats
  Clock::time_point last_sent_;       // used by the progress thread
};

}  // namespace tessera
