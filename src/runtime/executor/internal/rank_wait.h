// The only wait of a rank.
#pragma once

#include <chrono>
#include <string>

#include "runtime/executor/internal/actor_messages.h"
#include "runtime/executor/internal/exchanges/exchanger.h"

namespace tessera {

/// While a rank waits, it takes its messages and advances its prefetches.
///
///   threads  the thread of the rank
class RankWait {
 public:
  RankWait(const ProgramRanks& ranks, int rank_index, ActorMessages& messages, Exchanger& exchanger)
      : program_(ranks.context()),
        endpoint_(*ranks.find(rank_index)),
        messages_(messages),
        exchanger_(exchanger) {}

  /// Waits until `is_over()`, which may do work, returns true.
  ///   describe  the text of a missed deadline: "'y' waits for ..."; it is "" while a device works,
  ///             which has no deadline
  ///   throws    RunStopped; InternalError at the deadline
  template <typename Predicate, typename Describe>
  void until(const Predicate& is_over, const Describe& describe) {
    if (is_over()) return;
    auto end = deadline();
    for (;;) {
      messages_.receive();
      if (is_over()) return;
      if (exchanger_.prefetches().advance()) continue;
      if (sleep(end)) continue;
      fail(describe());
      end = deadline();
    }
  }
  /// throws  RunStopped when the run has stopped
  void check_stop() const {
    if (program_.stop->stopped()) throw RunStopped();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline() const;
  bool sleep(Clock::time_point end) const;
  void fail(const std::string& reason) const;

  const ProgramContext& program_;
  RankEndpoint& endpoint_;
  ActorMessages& messages_;
  Exchanger& exchanger_;
};

}  // namespace tessera
