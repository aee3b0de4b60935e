// Messages of actors and requests for data, routed to the programs of this process.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/comm/internal/frame_channel.h"
#include "runtime/comm/internal/rank_frame.h"
#include "runtime/comm/remote_fetch.h"

namespace tessera {

/// Every program has a number, which is the same in all processes, and is open while its ranks can
/// receive. Frames that arrive before are kept; frames that arrive after are dropped.
///
///   threads  any; programs are made and opened by one thread of each process, in the same order
class ProgramRouter {
 public:
  ProgramRouter(FrameChannel& channel, const StopState& stop, RemoteFetch& fetch);

  int new_program() { return next_program_.fetch_add(1); }
  void open(int program, ProgramPort& port);
  void close(int program);

  void send(int to, int program, const Message& message) {
    channel_.post(to, {FrameKind::kActorMessage, program, message, {}});
  }

 private:
  struct EarlyFrame {
    int from = 0;
    RankFrame frame;
  };
  // These are called with the lock of the channel.
  void make_entry(int program);
  void take(int from, std::span<const std::byte> bytes);
  void deliver(int from, const RankFrame& frame);
  void note_sent(const RankFrame& frame);

  FrameChannel& channel_;
  const StopState& stop_;
  RemoteFetch& fetch_;
  std::vector<ProgramPort*> open_;  // by program; nullptr: not open
  std::vector<bool> closed_;        // by program
  std::vector<EarlyFrame> early_;   // for programs that are not open yet
  std::atomic<int> next_program_{0};
};

}  // namespace tessera
