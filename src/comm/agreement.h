// Work that the members of a run do together: it fails on all of them or on none.
#pragma once

#include <exception>

#include "comm/failure_bytes.h"
#include "comm/network.h"

namespace tessera {

/// Meets with the other members: throws what the first member threw that threw anything, on all of
/// them.
///   mine    what was thrown here; nullptr: nothing
///   throws  as Network::meet, too
void agree_on(Network& network, Rank rank, const std::exception_ptr& mine, Seconds deadline,
              Meeting& meeting);

template <typename Work>
void agree(Network& network, Rank rank, Seconds deadline, Meeting& meeting, const Work& work) {
  std::exception_ptr mine;
  try {
    const Network::AtWork at_work(network, deadline);
    work();
  } catch (...) {
    mine = std::current_exception();
  }
  agree_on(network, rank, mine, deadline, meeting);
}

}  // namespace tessera
