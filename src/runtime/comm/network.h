// The connection of one process to the other processes of a run. It owns the transport, the parts
// that work over it, and the progress thread.
//
//     ProgramRouter   messages of actors       RemoteFetch      pieces of registers
//     ProcessGroups   collectives of tensors   HostCollectives  all-gathers of host bytes, barriers
//     KeepAlive       heartbeats               ClockComparison  offsets of clocks
//                     FrameChannel  framing, progress, waits
//                     Transport     bytes: runtime/mpi, runtime/comm/testing
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/comm/internal/clock_comparison.h"
#include "runtime/comm/internal/frame_channel.h"
#include "runtime/comm/internal/host_collectives.h"
#include "runtime/comm/internal/keep_alive.h"
#include "runtime/comm/internal/program_router.h"
#include "runtime/comm/process_groups.h"
#include "runtime/comm/remote_fetch.h"
#include "runtime/comm/stop_state.h"
#include "runtime/comm/transport.h"

namespace tessera {

/// memory   a step allocates nothing once a step has been run
/// failure  the first failure of any process stops all: stop() has it, and every wait checks it
class ProcessNetwork {
 public:
  /// now  as of KeepAlive
  explicit ProcessNetwork(std::unique_ptr<Transport> transport,
                          std::function<KeepAlive::Clock::time_point()> now = nullptr);
  ~ProcessNetwork();
  ProcessNetwork(const ProcessNetwork&) = delete;
  ProcessNetwork& operator=(const ProcessNetwork&) = delete;

  int process() const { return channel_.process(); }
  int size() const { return channel_.size(); }

  FrameChannel& channel() { return channel_; }
  KeepAlive& keep_alive() { return keep_alive_; }
  RemoteFetch& fetch() { return fetch_; }
  ProgramRouter& programs() { return programs_; }
  ProcessGroups& groups() { return groups_; }
  HostCollectives& host() { return host_; }
  ClockComparison& clocks() { return clocks_; }

  StopState& stop() { return stop_; }
  /// Stops all processes, if this is the first failure here.
  void fail(const Failure& failure);

 private:
  void make_progress();

  StopState stop_;
  FrameChannel channel_;
  KeepAlive keep_alive_;
  ClockComparison clocks_;
  RemoteFetch fetch_;
  ProgramRouter programs_;
  ProcessGroups groups_;
  HostCollectives host_;
  std::atomic<bool> is_ending_{false};
  std::thread progress_thread_;  // last, so that it ends before the members that it uses
};

}  // namespace tessera
