#include "comm/agreement.h"

namespace tessera {

void agree_on(Network& network, Rank rank, const std::exception_ptr& mine, Seconds deadline,
              Meeting& meeting) {
  std::vector<std::byte> told;
  if (mine) told = to_bytes({rank, "", "", mine});
  network.meet(told, meeting, deadline);
  for (int member = 0; member < network.members(); ++member) {
    const auto theirs = meeting.of(member);
    if (theirs.empty()) continue;
    if (member == network.member()) std::rethrow_exception(mine);
    std::rethrow_exception(failure_from(theirs).error);
  }
}

}  // namespace tessera
