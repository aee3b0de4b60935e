#include "runtime/comm/process_groups.h"

namespace tessera {

int ProcessGroups::group_of(const std::vector<int>& processes) {
  const auto lock = channel_.lock();
  const auto found = groups_.find(processes);
  return found != groups_.end()
             ? found->second
             : groups_.emplace(processes, backend_.split(processes)).first->second;
}

void ProcessGroups::start(const Collective& what, GroupStream on, const std::byte* source,
                          std::byte* target, Countdown& in_flight) {
  const auto lock = channel_.lock();
  backend_.start(what, on, source, target, in_flight);
}

}  // namespace tessera
