#include "runtime/comm/on_all_processes.h"

#include <cstddef>
#include <vector>

#include "runtime/comm/internal/failure_bytes.h"

namespace tessera {

void rethrow_first_failure(ProcessNetwork& network, Rank rank, const std::exception_ptr& mine,
                           Seconds deadline, GatheredBytes& scratch) {
  std::vector<std::byte> failure;
  if (mine) failure = to_bytes({rank, "", "", mine});
  network.host().all_gather(failure, scratch, deadline);
  for (int process = 0; process < network.size(); ++process) {
    const auto theirs = scratch.at(process);
    if (theirs.empty()) continue;
    if (process == network.process()) std::rethrow_exception(mine);
    std::rethrow_exception(failure_from(theirs).error);
  }
}

}  // namespace tessera
