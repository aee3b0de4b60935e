// Who is still there? A channel of its own between the members of a run, since a wait for a message
// never ends when its sender is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/network.h"

namespace tessera {

/// A member that is gone, or of which nothing was heard for too long.
struct LostMember {
  int member = 0;
  std::string host;
  int64_t process = 0;  // its number on the host
  bool is_gone = true;  // else it is only silent
};

/// Every member is connected with member 0 and sends a sign of life several times a second, from a
/// thread of its own. Member 0 hears of everyone that ends or is silent, and tells all; they hear
/// of member 0.
///
///   on_lost     is called once, from that thread, for the first member that is lost; not for those
///   that leave still_here  is called some seconds later, if this lives still: the run did not stop
///   by itself limit       the first that fails is named; what happens after that is not watched
class Liveness {
 public:
  using OnLost = std::function<void(const LostMember&)>;
  /// All members make it together.  throws  UserError when they do not reach each other
  Liveness(Network& network, Seconds deadline, OnLost on_lost, std::function<void()> still_here);
  /// Leaves: what happens to the others from here on is not watched.
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
