// Work that all processes of a run do. It fails on all of them or on none.
#pragma once

#include <exception>

#include "base/units.h"
#include "runtime/comm/network.h"

namespace tessera {

/// All-gathers the failures of the processes. When there is one, all processes throw the failure of
/// the first process that has one.
///   mine    the exception of this process; nullptr: none
///   throws  also as HostCollectives::all_gather
void rethrow_first_failure(ProcessNetwork& network, Rank rank, const std::exception_ptr& mine,
                           Seconds deadline, GatheredBytes& scratch);

template <typename Work>
void on_all_processes(ProcessNetwork& network, Rank rank, Seconds deadline, GatheredBytes& scratch,
                      const Work& work) {
  std::exception_ptr mine;
  try {
    const KeepAlive::BusyScope busy(network.keep_alive(), deadline);
    work();
  } catch (...) {
    mine = std::current_exception();
  }
  rethrow_first_failure(network, rank, mine, deadline, scratch);
}

}  // namespace tessera
