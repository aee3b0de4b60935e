// The text of a missed deadline: which rank waits for which.
#pragma once

#include <string>

#include "runtime/executor/internal/bound_task.h"
#include "runtime/executor/internal/bound_tasks.h"
#include "runtime/executor/internal/program_ranks.h"
#include "task_graph/actors/actor.h"

namespace tessera {

/// Describes an exchange that acts: "'all-reduce y' for bytes of ranks of other processes".
std::string awaited_text(const BoundTask& exchange);

class WaitReport {
 public:
  WaitReport(const ProgramRanks& ranks, int rank_index, const BoundTasks& tasks)
      : ranks_(ranks), program_(ranks.context()), rank_index_(rank_index), tasks_(tasks) {}

  /// The reason for which a task cannot act.
  std::string of_task(const BoundTask& task) const;
  /// The ranks that still read registers of this one.
  std::string of_outputs() const;

 private:
  std::string actor_text(ActorId actor) const;
  std::string position_text(int position) const;

  const ProgramRanks& ranks_;
  const ProgramContext& program_;
  const int rank_index_;
  const BoundTasks& tasks_;
};

}  // namespace tessera
