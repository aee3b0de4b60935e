// What all members of a network do together: meetings, and clocks that are compared.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/clock_time.h"
#include "base/error.h"
#include "comm/network.h"

namespace tessera {
namespace {

template <typename Plain>
std::span<const std::byte> bytes_of(const Plain& plain) {
  return std::as_bytes(std::span(&plain, 1));
}

}  // namespace

// ---- meetings ----

void Network::send_meeting(int to, std::span<const std::byte> bytes) {
  std::array<std::byte, Transport::kMostMessageBytes> message{};
  const MeetHeader header{FrameKind::kMeet, bytes.size()};
  std::memcpy(message.data(), &header, sizeof header);
  constexpr size_t kRoom = Transport::kMostMessageBytes - sizeof header;
  do {
    const auto part = bytes.first(std::min(kRoom, bytes.size()));
    if (!part.empty()) std::memcpy(message.data() + sizeof header, part.data(), part.size());
    const std::lock_guard lock(progress_);
    transport_->send(to, std::span(message).first(sizeof header + part.size()));
    bytes = bytes.subspan(part.size());
  } while (!bytes.empty());
}

void Network::take_meeting(int from, std::span<const std::byte> bytes) {
  MeetInbox& inbox = meetings_[from];
  MeetHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  ensure(!inbox.is_complete.load(std::memory_order_relaxed),
         "members meet one meeting after the other");
  const auto part = bytes.subspan(sizeof header);
  inbox.bytes.insert(inbox.bytes.end(), part.begin(), part.end());
  if (inbox.bytes.size() == header.total) inbox.is_complete.store(true, std::memory_order_release);
}

void Network::wait_for_meeting(int from, std::chrono::steady_clock::time_point end,
                               Seconds deadline) {
  const MeetInbox& inbox = meetings_[from];
  const auto is_complete = [&] { return inbox.is_complete.load(std::memory_order_acquire); };
  bool came = wait(is_complete, end);
  while (!came && !stop_.stopped()) {
    const Clock::time_point sign(Clock::duration(heard_at_work_.load(std::memory_order_relaxed)));
    if (sign + clock_time(deadline) <= Clock::now()) break;
    came = wait(is_complete, sign + clock_time(deadline));
  }
  if (!came && stop_.stopped()) stop_.rethrow();
  ensure(came, "waited " + to_text(deadline) + " for process " + std::to_string(from) +
                   " to end the step");
}

void Network::write_meeting(std::span<const std::byte> mine) {
  const auto count = static_cast<size_t>(members());
  met_.resize((count + 1) * sizeof(uint64_t));
  uint64_t end = 0;
  for (size_t from = 0; from < count; ++from) {
    const auto given = static_cast<int>(from) == member()
                           ? mine
                           : std::span<const std::byte>(meetings_[from].bytes);
    met_.insert(met_.end(), given.begin(), given.end());
    end += given.size();
    std::memcpy(met_.data() + (from + 1) * sizeof end, &end, sizeof end);
    meetings_[from].bytes.clear();
    meetings_[from].is_complete.store(false, std::memory_order_relaxed);
  }
}

void Network::read_meeting(Meeting& meeting) {
  const auto count = static_cast<size_t>(members());
  const std::span<const std::byte> all = met_;
  meeting.begins_.resize(count + 1);
  for (size_t i = 0; i <= count; ++i) {
    uint64_t begin = 0;
    std::memcpy(&begin, all.data() + i * sizeof begin, sizeof begin);
    meeting.begins_[i] = begin;
  }
  const auto given = all.subspan((count + 1) * sizeof(uint64_t));
  meeting.bytes_.assign(given.begin(), given.end());
}

void Network::meet(std::span<const std::byte> mine, Meeting& meeting, Seconds deadline) {
  meet(mine, meeting, deadline, true);
}

void Network::gather(std::span<const std::byte> mine, Meeting& meeting, Seconds deadline) {
  meet(mine, meeting, deadline, false);
}

void Network::meet(std::span<const std::byte> mine, Meeting& meeting, Seconds deadline,
                   bool all_get) {
  if (stop_.stopped()) stop_.rethrow();
  beat_within(deadline);
  const auto end = Clock::now() + clock_time(deadline);
  if (member() != 0) {
    send_meeting(0, mine);
    wait_for_meeting(0, end, deadline);
    const std::lock_guard lock(progress_);
    met_.swap(meetings_[0].bytes);
    meetings_[0].bytes.clear();
    meetings_[0].is_complete.store(false, std::memory_order_relaxed);
  } else {
    for (int from = 1; from < members(); ++from) wait_for_meeting(from, end, deadline);
    {
      const std::lock_guard lock(progress_);
      write_meeting(mine);
    }
    for (int to = 1; to < members(); ++to)
      send_meeting(to, all_get ? std::span<const std::byte>(met_) : std::span<const std::byte>());
  }
  if (all_get || member() == 0)
    read_meeting(meeting);
  else
    meeting = {};
}

// ---- clocks ----

/// A transport is not called while it hands over what has come.
void Network::answer_questions() {
  for (const TimeQuestion& question : time_questions_) {
    const TimeFrame answer{FrameKind::kTellTime, question.came};
    transport_->send(question.from, bytes_of(answer));
  }
  time_questions_.clear();
}

void Network::take_time(std::span<const std::byte> bytes) {
  TimeFrame frame;
  ensure(bytes.size() == sizeof frame, "an answer is whole");
  std::memcpy(&frame, bytes.data(), sizeof frame);
  time_answer_ = {frame.time, Clock::now()};
  has_time_answer_.store(true, std::memory_order_release);
}

Network::ClockReading Network::compare_clocks(int with, int tries, Seconds deadline) {
  const auto seconds = [](Clock::duration time) {
    return Seconds(std::chrono::duration<double>(time).count());
  };
  constexpr FrameKind kQuestion = FrameKind::kAskTime;
  ClockReading best{Seconds(0), deadline};
  for (int i = 0; i < tries; ++i) {
    has_time_answer_.store(false, std::memory_order_relaxed);
    const auto asked = Clock::now();
    {
      const std::lock_guard lock(progress_);
      transport_->send(with, bytes_of(kQuestion));
    }
    const bool came = wait([this] { return has_time_answer_.load(std::memory_order_acquire); },
                           asked + clock_time(deadline));
    if (!came && stop_.stopped()) stop_.rethrow();
    ensure(came, "waited " + to_text(deadline) + " for process " + std::to_string(with) +
                     " to tell the time");
    const auto half = (time_answer_.came - asked) / 2;
    if (seconds(half) < best.error)
      best = {seconds(time_answer_.told - asked - half), seconds(half)};
  }
  return best;
}

}  // namespace tessera
