#include "runtime/comm/internal/clock_comparison.h"

#include <cstring>
#include <string>

#include "base/error.h"
#include "runtime/comm/plain_bytes.h"

namespace tessera {

ClockComparison::ClockComparison(FrameChannel& channel, KeepAlive& keep_alive)
    : channel_(channel), keep_alive_(keep_alive) {
  channel.on_frame(FrameKind::kClockQuestion, [this](int from, std::span<const std::byte>) {
    questions_.push_back({from, Clock::now()});
  });
  channel.on_frame(FrameKind::kClockAnswer,
                   [this](int, std::span<const std::byte> frame) { take_answer(frame); });
  channel.on_progress([this] { return answer_questions(); });
}

bool ClockComparison::answer_questions() {
  if (questions_.empty()) return false;
  for (const Question& question : questions_) {
    const Answer answer{FrameKind::kClockAnswer, question.arrived};
    channel_.transport().send(question.from, bytes_of_plain(answer));
  }
  questions_.clear();
  return true;
}

void ClockComparison::take_answer(std::span<const std::byte> frame) {
  Answer answer;
  ensure(frame.size() == sizeof answer, "a frame is complete");
  std::memcpy(&answer, frame.data(), sizeof answer);
  told_ = answer.time;
  arrived_ = Clock::now();
  has_answer_.store(true, std::memory_order_release);
}

ClockReading ClockComparison::compare(int with, int tries, Seconds deadline) {
  const auto seconds = [](Clock::duration time) {
    return Seconds(std::chrono::duration<double>(time).count());
  };
  constexpr FrameKind kQuestion = FrameKind::kClockQuestion;
  ClockReading best{Seconds(0), deadline};
  for (int i = 0; i < tries; ++i) {
    has_answer_.store(false, std::memory_order_relaxed);
    const auto asked = Clock::now();
    channel_.send(with, bytes_of_plain(kQuestion));
    keep_alive_.wait_until(
        [this] { return has_answer_.load(std::memory_order_acquire); }, deadline,
        [with] { return "process " + std::to_string(with) + " to tell the time"; });
    const auto half = (arrived_ - asked) / 2;
    if (seconds(half) < best.error) best = {seconds(told_ - asked - half), seconds(half)};
  }
  return best;
}

}  // namespace tessera
