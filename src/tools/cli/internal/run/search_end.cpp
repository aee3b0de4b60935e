#include "tools/cli/internal/run/search_end.h"

#include <cstdlib>

#include "tools/cli/internal/print/print.h"

namespace tessera {

void SearchEnd::set_limit(Seconds limit) {
  const std::lock_guard lock(mutex_);
  using Clock = std::chrono::steady_clock;
  end_ = Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit.value()));
}

bool SearchEnd::has_come() {
  const std::lock_guard lock(mutex_);
  if (const std::optional<int> signal = signals_.take()) {
    constexpr int kOfSignals = 128;
    if (is_stopped_) std::_Exit(kOfSignals + *signal);
    is_stopped_ = true;
    tell("plan: a signal ends the search; the best plan so far is the answer\n");
  }
  return is_stopped_ || (end_ && std::chrono::steady_clock::now() >= *end_);
}

}  // namespace tessera
