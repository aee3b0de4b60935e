#include "runtime/comm/internal/keep_alive.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/threads/clock_time.h"
#include "runtime/comm/plain_bytes.h"

namespace tessera {
namespace {

constexpr auto kMaxInterval = std::chrono::seconds(1);
constexpr int kHeartbeatsPerDeadline = 10;

}  // namespace

KeepAlive::KeepAlive(FrameChannel& channel, const StopState& stop,
                     std::function<Clock::time_point()> now)
    : channel_(channel),
      stop_(stop),
      now_(now ? std::move(now) : [] { return Clock::now(); }),
      interval_(Clock::duration(kMaxInterval).count()) {
  channel.on_frame(FrameKind::kHeartbeat, [this](int, std::span<const std::byte>) {
    last_heard_.store(now_().time_since_epoch().count(), std::memory_order_relaxed);
  });
}

KeepAlive::BusyScope::BusyScope(KeepAlive& keep_alive, Seconds deadline) : keep_alive_(keep_alive) {
  keep_alive.limit_interval(deadline);
  keep_alive.busy_.fetch_add(1, std::memory_order_relaxed);
}

void KeepAlive::limit_interval(Seconds deadline) {
  const auto interval =
      std::min<Clock::duration>(kMaxInterval, clock_time(deadline) / kHeartbeatsPerDeadline);
  interval_.store(interval.count(), std::memory_order_relaxed);
}

KeepAlive::Clock::time_point KeepAlive::last_heard() const {
  return Clock::time_point(Clock::duration(last_heard_.load(std::memory_order_relaxed)));
}

void KeepAlive::send_heartbeat() {
  const bool is_first = channel_.process() == 0;
  const bool must_forward = is_first && last_heard() > last_sent_;
  if ((busy_.load(std::memory_order_relaxed) == 0 && !must_forward) || stop_.stopped()) return;
  const auto now = now_();
  if (now - last_sent_ < Clock::duration(interval_.load(std::memory_order_relaxed))) return;
  last_sent_ = now;
  constexpr FrameKind kKind = FrameKind::kHeartbeat;
  is_first ? channel_.send_to_others(bytes_of_plain(kKind))
           : channel_.send(0, bytes_of_plain(kKind));
}

void KeepAlive::wait_until(const std::function<bool()>& is_over, Seconds deadline,
                           const std::function<std::string()>& describe) {
  limit_interval(deadline);
  const auto first_end = now_() + clock_time(deadline);
  bool is_late = false;
  const auto ends = [&] {
    if (is_over()) return true;
    is_late = now_() >= std::max(first_end, last_heard() + clock_time(deadline));
    return is_late;
  };
  if (!channel_.wait_until(ends, Clock::time_point::max())) stop_.rethrow();
  if (is_late) throw InternalError("waited " + to_text(deadline) + " for " + describe());
}

}  // namespace tessera
