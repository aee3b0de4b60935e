// Messages between the processes of a run: the lock, the progress loop and the wait loop that the
// transport and all parts of a ProcessNetwork share. It knows kinds of frames, not what they mean.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "runtime/comm/internal/rank_frame.h"
#include "runtime/comm/stop_state.h"
#include "runtime/comm/transport.h"

namespace tessera {

/// Waits for another process: yields the core a few times, then sleeps.
class Backoff {
 public:
  void reset() { yields_ = 0; }
  void pause() {
    if (++yields_ < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }

 private:
  static constexpr int kYields = 200;
  static constexpr auto kSleep = std::chrono::microseconds(50);
  int yields_ = 0;
};

///   threads  any
///   lock     one lock guards the transport and the state of every part that handles frames.
///            Handlers are called with the lock held and must not call the transport; the functions
///            of on_progress are called with the lock held and may call it.
class FrameChannel {
 public:
  using Clock = std::chrono::steady_clock;
  using Handler = std::function<void(int from, std::span<const std::byte> frame)>;

  FrameChannel(std::unique_ptr<Transport> transport, StopState& stop)
      : transport_(std::move(transport)), stop_(stop) {}

  int process() const { return transport_->process(); }
  int size() const { return transport_->size(); }

  // These set up the channel, before the first progress.
  void on_frame(FrameKind kind, Handler handler);
  /// Sets a function that is called for each frame of post() once the transport has it.
  void on_sent(std::function<void(const RankFrame&)> handler) { on_sent_ = std::move(handler); }
  /// Adds a function that is called once in each round of progress.  returns  whether it did
  /// anything
  void on_progress(std::function<bool()> work) { on_progress_.push_back(std::move(work)); }

  /// Sends without waiting for the lock: the thread that holds it sends the frame.
  void post(int to, const RankFrame& frame);
  void send(int to, std::span<const std::byte> frame);
  void send_to_others(std::span<const std::byte> frame);

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// requires  the lock
  Transport& transport() { return *transport_; }
  /// Ends progress after a failure, see Transport::abandon().  requires  the lock
  void abandon();

  /// Makes one round of progress, unless another thread does.  returns  whether anything moved
  bool progress();
  /// Makes progress until `is_over()`, until the run stops or until `end`.  returns  is_over()
  bool wait_until(const std::function<bool()>& is_over, Clock::time_point end);

  /// The scope of a thread that waits and makes progress itself. The progress thread rests
  /// meanwhile.
  class WaitScope {
   public:
    explicit WaitScope(FrameChannel& channel) : channel_(channel) {
      channel_.waiting_.fetch_add(1, std::memory_order_relaxed);
    }
    ~WaitScope() { channel_.waiting_.fetch_sub(1, std::memory_order_relaxed); }
    WaitScope(const WaitScope&) = delete;
    WaitScope& operator=(const WaitScope&) = delete;

   private:
    FrameChannel& channel_;
  };
  bool has_waiting_thread() const { return waiting_.load(std::memory_order_relaxed) > 0; }

 private:
  struct Outgoing {
    int to = 0;
    RankFrame frame;
  };
  bool make_round();
  void flush_outbox();
  void dispatch(int from, std::span<const std::byte> frame);

  std::unique_ptr<Transport> transport_;
  StopState& stop_;
  std::mutex mutex_;  // guards the transport, is_abandoned_, flushed_ and the state of the handlers
  std::array<Handler, kFrameKinds> handlers_;
  std::function<void(const RankFrame&)> on_sent_;
  std::vector<std::function<bool()>> on_progress_;
  bool is_abandoned_ = false;
  std::vector<Outgoing> flushed_;
  std::mutex outbox_mutex_;  // guards outbox_
  std::vector<Outgoing> outbox_;
  std::atomic<size_t> outbox_count_{0};
  std::atomic<int> waiting_{0};
};

}  // namespace tessera
