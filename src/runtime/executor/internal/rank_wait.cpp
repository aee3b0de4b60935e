#include "runtime/executor/internal/rank_wait.h"

#include "base/error.h"
#include "base/text/text.h"
#include "base/threads/clock_time.h"

namespace tessera {

RankWait::Clock::time_point RankWait::deadline() const {
  return Clock::now() + clock_time(program_.options.deadline);
}

/// Sleeps until there may be work.  returns  false at the deadline
bool RankWait::sleep(Clock::time_point end) const {
  const bool in_time =
      program_.network ? program_.network->channel().wait_until(
                             [this] { return messages_.has_any() || exchanger_.has_news(); }, end)
                       : endpoint_.mailbox->wait(*program_.stop, program_.spin_policy, end);
  check_stop();
  return in_time;
}

void RankWait::fail(const std::string& reason) const {
  if (!reason.empty())
    throw InternalError("waited " + to_text(program_.options.deadline) + ": " + reason);
}

}  // namespace tessera
