#include "runtime/comm/internal/frame_channel.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/comm/plain_bytes.h"

namespace tessera {

void FrameChannel::on_frame(FrameKind kind, Handler handler) {
  handlers_.at(static_cast<size_t>(kind)) = std::move(handler);
}

void FrameChannel::post(int to, const RankFrame& frame) {
  {
    const std::lock_guard lock(outbox_mutex_);
    outbox_.push_back({to, frame});
    outbox_count_.store(outbox_.size(), std::memory_order_release);
  }
  progress();
}

void FrameChannel::send(int to, std::span<const std::byte> frame) {
  const std::lock_guard lock(mutex_);
  transport_->send(to, frame);
}

void FrameChannel::send_to_others(std::span<const std::byte> frame) {
  const std::lock_guard lock(mutex_);
  for (int to = 0; to < size(); ++to)
    if (to != process()) transport_->send(to, frame);
}

void FrameChannel::abandon() {
  is_abandoned_ = true;
  transport_->abandon();
}

void FrameChannel::flush_outbox() {
  {
    const std::lock_guard lock(outbox_mutex_);
    flushed_.swap(outbox_);
    outbox_count_.store(0, std::memory_order_release);
  }
  for (const Outgoing& out : flushed_) {
    transport_->send(out.to, bytes_of_plain(out.frame));
    on_sent_(out.frame);
  }
  flushed_.clear();
}

void FrameChannel::dispatch(int from, std::span<const std::byte> frame) {
  ensure(!frame.empty(), "a message between processes begins with its kind");
  const auto kind = std::to_integer<size_t>(frame[0]);
  ensure(kind < handlers_.size() && handlers_[kind],
         "process " + std::to_string(from) + " sent a message of " + std::to_string(frame.size()) +
             " bytes of the unknown kind " + std::to_string(kind));
  handlers_[kind](from, frame);
}

bool FrameChannel::make_round() {
  if (is_abandoned_) return false;
  const bool has_mail = outbox_count_.load(std::memory_order_acquire) > 0;
  if (has_mail) flush_outbox();
  bool moved = transport_->poll(
      [this](int from, std::span<const std::byte> frame) { dispatch(from, frame); });
  for (const auto& work : on_progress_) moved = work() || moved;
  return has_mail || moved;
}

bool FrameChannel::progress() {
  bool moved = false;
  do {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return moved;  // the thread that has the lock looks into the outbox once more
    moved = make_round() || moved;
    if (is_abandoned_) return false;
  } while (outbox_count_.load(std::memory_order_acquire) > 0);
  return moved;
}

bool FrameChannel::wait_until(const std::function<bool()>& is_over, Clock::time_point end) {
  const WaitScope scope(*this);
  Backoff backoff;
  for (;;) {
    if (is_over()) return true;
    if (stop_.stopped()) return false;
    if (progress()) {
      backoff.reset();
      continue;
    }
    if (Clock::now() > end) return is_over();
    backoff.pause();
  }
}

}  // namespace tessera
