#include "runtime/comm/network.h"

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "runtime/comm/internal/failure_bytes.h"

namespace tessera {
namespace {

/// Of the progress thread while other threads make progress.
constexpr auto kRest = std::chrono::microseconds(500);

}  // namespace

ProcessNetwork::ProcessNetwork(std::unique_ptr<Transport> transport,
                               std::function<KeepAlive::Clock::time_point()> now)
    : channel_(std::move(transport), stop_),
      keep_alive_(channel_, stop_, std::move(now)),
      clocks_(channel_, keep_alive_),
      fetch_(channel_),
      programs_(channel_, stop_, fetch_),
      groups_(channel_, channel_.transport()),
      host_(channel_, keep_alive_, stop_) {
  channel_.on_frame(FrameKind::kStop, [this](int, std::span<const std::byte> frame) {
    stop_.fail(failure_from(frame.subspan(1)));
  });
  progress_thread_ = std::thread([this] { make_progress(); });
}

ProcessNetwork::~ProcessNetwork() {
  is_ending_.store(true);
  progress_thread_.join();
  if (!stop_.stopped()) return;
  const auto lock = channel_.lock();
  channel_.abandon();  // the other processes may not come to their end
}

void ProcessNetwork::make_progress() {
  Backoff backoff;
  while (!is_ending_.load(std::memory_order_relaxed)) {
    keep_alive_.send_heartbeat();
    if (channel_.has_waiting_thread()) {
      std::this_thread::sleep_for(kRest);
      continue;
    }
    try {
      channel_.progress() ? backoff.reset() : backoff.pause();
    } catch (...) {
      fail({process(), "", "", std::current_exception()});
      return;
    }
  }
}

void ProcessNetwork::fail(const Failure& failure) {
  if (stop_.stopped()) return;
  stop_.fail(failure);
  std::vector<std::byte> frame{static_cast<std::byte>(FrameKind::kStop)};
  const std::vector<std::byte> bytes = to_bytes(failure);
  frame.insert(frame.end(), bytes.begin(), bytes.end());
  channel_.send_to_others(frame);
}

}  // namespace tessera
