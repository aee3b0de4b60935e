// Detects processes of a run that ended or do not respond. It has connections of its own, since a
// wait for a message never ends when the sender is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/comm/network.h"

namespace tessera {

/// A process that ended, or that has sent no heartbeat for too long.
struct LostProcess {
  int process = 0;
  std::string host;
  int64_t pid = 0;
  bool has_ended = true;  // false: it only does not respond
};

/// Every process has a connection with process 0 and sends a heartbeat several times a second, from
/// a thread of its own. Process 0 detects every process that ends or does not respond and tells all
/// others; these detect the loss of process 0.
///
///   on_lost     is called once, from that thread, for the first process that is lost; a process
///               that leaves is not lost
///   still_here  is called some seconds later, if the run did not stop by itself
///   limit       only the first loss is reported
class Liveness {
 public:
  using OnLost = std::function<void(const LostProcess&)>;
  /// All processes construct it together.  throws  UserError when they cannot connect to each other
  Liveness(ProcessNetwork& network, Seconds deadline, OnLost on_lost,
           std::function<void()> still_here);
  /// Leaves the run: later losses are not detected here, and this process does not count as lost.
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
