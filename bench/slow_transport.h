// A network that is slower than this machine's memory, for benchmarks of overlap.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include "runtime/comm/transport.h"

namespace tessera {

/// A link that sends one message after the other at a given bandwidth.
class SlowTransport : public Transport {
 public:
  SlowTransport(std::unique_ptr<Transport> inner, double bytes_per_second)
      : inner_(std::move(inner)), speed_(bytes_per_second) {}

  /// requires  nothing is in flight
  void set_speed(double bytes_per_second) { speed_ = bytes_per_second; }

  int process() const override { return inner_->process(); }
  int size() const override { return inner_->size(); }
  int tags() const override { return inner_->tags(); }
  void send(int to, std::span<const std::byte> message) override { inner_->send(to, message); }
  void send_data(int to, int tag, std::span<const std::byte> data, Countdown& in_flight) override {
    const auto takes = std::chrono::duration<double>(static_cast<double>(data.size()) / speed_);
    free_ = std::max(free_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(takes);
    pieces_.push_back({to, tag, data, &in_flight, free_});
  }
  void recv_data(int from, int tag, std::span<std::byte> data, Countdown& in_flight) override {
    inner_->recv_data(from, tag, data, in_flight);
  }
  int split(std::span<const int> processes) override { return inner_->split(processes); }
  void start(const Collective& what, GroupStream on, const std::byte* source, std::byte* target,
             Countdown& in_flight) override {
    inner_->start(what, on, source, target, in_flight);
  }
  void abandon() override {
    pieces_.clear();
    inner_->abandon();
  }
  bool poll(const OnMessage& on_message) override {
    for (; !pieces_.empty() && pieces_.front().due <= Clock::now(); pieces_.pop_front())
      inner_->send_data(pieces_.front().to, pieces_.front().tag, pieces_.front().data,
                        *pieces_.front().in_flight);
    return inner_->poll(on_message);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Piece {
    int to, tag;
    std::span<const std::byte> data;
    Countdown* in_flight;
    Clock::time_point due;
  };
  std::unique_ptr<Transport> inner_;
  std::atomic<double> speed_;
  Clock::time_point free_;
  std::deque<Piece> pieces_;
};

}  // namespace tessera
