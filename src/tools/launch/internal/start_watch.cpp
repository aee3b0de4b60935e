#include "tools/launch/internal/start_watch.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "base/threads/clock_time.h"

namespace tessera {
namespace {

using Clock = RankWatch::Clock;
constexpr auto kInterval = std::chrono::milliseconds(100);

LostProcess lost_process(const RankWatch::Rank& rank, bool has_ended) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return {rank.number, host.data(), rank.pid, has_ended};
}

}  // namespace

StartLosses::StartLosses(pid_t launcher, Seconds deadline)
    : max_time_(clock_time(deadline)), ranks_(launcher) {}

std::optional<LostProcess> StartLosses::check(Clock::time_point now) {
  ranks_.update(now);
  if (const auto stopped = ranks_.stopped_for(max_time_, now)) return lost_process(*stopped, false);
  const auto lost = ranks_.first_lost();
  if (!lost) return std::nullopt;
  if (!lost_at_) lost_at_ = now;  // the launcher may end the others and report why
  if (now - *lost_at_ <= max_time_) return std::nullopt;
  return lost_process(*lost, true);
}

StartWatch::StartWatch(pid_t launcher, Seconds deadline, OnLost on_lost)
    : thread_([this, launcher, deadline, on_lost = std::move(on_lost)] {
        StartLosses losses(launcher, deadline);
        for (; !is_ending_.load(); std::this_thread::sleep_for(kInterval))
          if (const auto lost = losses.check(Clock::now())) return on_lost(*lost);
      }) {}

}  // namespace tessera
