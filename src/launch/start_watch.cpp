#include "launch/start_watch.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "base/threads/clock_time.h"
#include "launch/rank_watch.h"

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

StartWatch::StartWatch(pid_t launcher, Seconds deadline, OnLost on_lost)
    : thread_([this, launcher, deadline, on_lost = std::move(on_lost)] {
        watch(launcher, deadline, on_lost);
      }) {}

void StartWatch::watch(pid_t launcher, Seconds deadline, const OnLost& on_lost) {
  const auto max_time = clock_time(deadline);
  RankWatch ranks(launcher);
  std::optional<Clock::time_point> lost_at;
  for (; !is_ending_.load(); std::this_thread::sleep_for(kInterval)) {
    ranks.update();
    if (const auto stopped = ranks.stopped_for(max_time))
      return on_lost(lost_process(*stopped, false));
    const auto lost = ranks.first_lost();
    if (lost && !lost_at) lost_at = Clock::now();  // the launcher may end the others and report why
    if (lost && Clock::now() - *lost_at > max_time) return on_lost(lost_process(*lost, true));
  }
}

}  // namespace tessera
