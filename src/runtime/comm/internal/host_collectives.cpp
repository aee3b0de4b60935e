#include "runtime/comm/internal/host_collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/error.h"
#include "runtime/comm/transport.h"

namespace tessera {

void GatheredBytes::assign(std::span<const std::byte> table, int processes) {
  begins_.resize(processes + 1);
  for (size_t i = 0; i < begins_.size(); ++i) {
    uint64_t begin = 0;
    std::memcpy(&begin, table.data() + i * sizeof begin, sizeof begin);
    begins_[i] = begin;
  }
  const auto bytes = table.subspan(begins_.size() * sizeof(uint64_t));
  bytes_.assign(bytes.begin(), bytes.end());
}

HostCollectives::HostCollectives(FrameChannel& channel, KeepAlive& keep_alive,
                                 const StopState& stop)
    : channel_(channel), keep_alive_(keep_alive), stop_(stop), inboxes_(channel.size()) {
  channel.on_frame(FrameKind::kHostBytes,
                   [this](int from, std::span<const std::byte> frame) { take(from, frame); });
}

/// Sends the bytes in as many messages as necessary, at least one.
void HostCollectives::send(int to, std::span<const std::byte> bytes) {
  std::array<std::byte, Transport::kMaxMessageBytes> message{};
  const Header header{FrameKind::kHostBytes, bytes.size()};
  std::memcpy(message.data(), &header, sizeof header);
  constexpr size_t kMaxPart = Transport::kMaxMessageBytes - sizeof header;
  do {
    const auto part = bytes.first(std::min(kMaxPart, bytes.size()));
    if (!part.empty()) std::memcpy(message.data() + sizeof header, part.data(), part.size());
    channel_.send(to, std::span(message).first(sizeof header + part.size()));
    bytes = bytes.subspan(part.size());
  } while (!bytes.empty());
}

void HostCollectives::take(int from, std::span<const std::byte> frame) {
  Inbox& inbox = inboxes_[from];
  Header header;
  ensure(frame.size() >= sizeof header, "a frame is complete");
  std::memcpy(&header, frame.data(), sizeof header);
  ensure(!inbox.is_complete.load(std::memory_order_relaxed),
         "processes make their calls of collectives one after the other");
  const auto part = frame.subspan(sizeof header);
  inbox.bytes.insert(inbox.bytes.end(), part.begin(), part.end());
  if (inbox.bytes.size() == header.total) inbox.is_complete.store(true, std::memory_order_release);
}

/// Waits for the bytes of the processes first .. end - 1.
void HostCollectives::wait_for(int first, int end, Seconds deadline) {
  int next = first;  // the first process whose bytes are not complete
  keep_alive_.wait_until(
      [&] {
        while (next < end && inboxes_[next].is_complete.load(std::memory_order_acquire)) ++next;
        return next == end;
      },
      deadline, [&next] { return "process " + std::to_string(next) + " to end the step"; });
}

void HostCollectives::reset(Inbox& inbox) {
  inbox.bytes.clear();
  inbox.is_complete.store(false, std::memory_order_relaxed);
}

void HostCollectives::write_table(std::span<const std::byte> mine) {
  const auto lock = channel_.lock();
  table_.resize((inboxes_.size() + 1) * sizeof(uint64_t));
  uint64_t end = 0;
  std::memcpy(table_.data(), &end, sizeof end);
  for (size_t from = 0; from < inboxes_.size(); ++from) {
    const auto given = from == 0 ? mine : std::span<const std::byte>(inboxes_[from].bytes);
    table_.insert(table_.end(), given.begin(), given.end());
    end += given.size();
    std::memcpy(table_.data() + (from + 1) * sizeof end, &end, sizeof end);
    reset(inboxes_[from]);
  }
}

/// Leaves the bytes of all in table_, in all processes when all_get, otherwise in process 0.
void HostCollectives::exchange(std::span<const std::byte> mine, Seconds deadline, bool all_get) {
  if (stop_.stopped()) stop_.rethrow();
  if (channel_.process() != 0) {
    send(0, mine);
    wait_for(0, 1, deadline);
    const auto lock = channel_.lock();
    table_.swap(inboxes_[0].bytes);
    reset(inboxes_[0]);
    return;
  }
  wait_for(1, channel_.size(), deadline);
  write_table(mine);
  for (int to = 1; to < channel_.size(); ++to)
    send(to, all_get ? std::span<const std::byte>(table_) : std::span<const std::byte>());
}

void HostCollectives::all_gather(std::span<const std::byte> mine, GatheredBytes& gathered,
                                 Seconds deadline) {
  exchange(mine, deadline, true);
  gathered.assign(table_, channel_.size());
}

void HostCollectives::gather(std::span<const std::byte> mine, GatheredBytes& gathered,
                             Seconds deadline) {
  exchange(mine, deadline, false);
  if (channel_.process() == 0)
    gathered.assign(table_, channel_.size());
  else
    gathered.clear();
}

void HostCollectives::barrier(Seconds deadline) {
  all_gather({}, nothing_, deadline);
}

}  // namespace tessera
