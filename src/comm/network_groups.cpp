// What groups of members do together, as their transport does it.
#include "comm/network.h"

namespace tessera {

int Network::group(const std::vector<int>& members) {
  const std::lock_guard lock(progress_);
  const auto found = groups_.find(members);
  return found != groups_.end()
             ? found->second
             : groups_.emplace(members, transport_->new_group(members)).first->second;
}

void Network::begin(const Collective& what, int group, const std::byte* source, std::byte* target,
                    Countdown& under_way) {
  const std::lock_guard lock(progress_);
  transport_->begin(what, group, source, target, under_way);
}

}  // namespace tessera
