// Collectives of all processes over bytes of the host. They are for control, not for tensors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "runtime/comm/internal/frame_channel.h"
#include "runtime/comm/internal/keep_alive.h"
#include "runtime/comm/stop_state.h"

namespace tessera {

/// The bytes that each process gave.
class GatheredBytes {
 public:
  std::span<const std::byte> at(int process) const {
    return std::span(bytes_).subspan(begins_[process], begins_[process + 1] - begins_[process]);
  }

  /// `table` has the offset of the bytes of each process after the table, then the end, as
  /// uint64_t; then the bytes.
  void assign(std::span<const std::byte> table, int processes);
  void clear() { bytes_.clear(), begins_.clear(); }

 private:
  std::vector<std::byte> bytes_;
  std::vector<size_t> begins_;
};

/// Each call ends when all processes have made it. Process 0 collects the bytes of all processes,
/// then sends them to the others.
///
///   deadline  for each process; it counts from the last heartbeat of a process that is busy
///   throws    the failure that stops the run; InternalError that names the process that is late
///   threads   one thread of each process, with the calls in the same order in all processes
///   memory    nothing is allocated once the largest number of bytes was gathered
class HostCollectives {
 public:
  HostCollectives(FrameChannel& channel, KeepAlive& keep_alive, const StopState& stop);

  /// Gives every process the bytes of all processes.
  void all_gather(std::span<const std::byte> mine, GatheredBytes& gathered, Seconds deadline);
  /// Gives them only to process 0; `gathered` of the others becomes empty.
  void gather(std::span<const std::byte> mine, GatheredBytes& gathered, Seconds deadline);
  void barrier(Seconds deadline);

 private:
  struct Header {
    FrameKind kind = FrameKind::kHostBytes;
    uint64_t total = 0;
  };
  struct Inbox {
    std::vector<std::byte> bytes;
    std::atomic<bool> is_complete{false};
  };
  void exchange(std::span<const std::byte> mine, Seconds deadline, bool all_get);
  void send(int to, std::span<const std::byte> bytes);
  void take(int from, std::span<const std::byte> frame);
  void wait_for(int first, int end, Seconds deadline);
  void write_table(std::span<const std::byte> mine);
  void reset(Inbox& inbox);

  FrameChannel& channel_;
  KeepAlive& keep_alive_;
  const StopState& stop_;
  std::vector<Inbox> inboxes_;    // by process; guarded by the lock of the channel
  std::vector<std::byte> table_;  // the bytes of all, in the format of GatheredBytes::assign
  GatheredBytes nothing_;         // the result of barriers
};

}  // namespace tessera
