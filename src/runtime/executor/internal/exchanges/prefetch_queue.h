// Exchanges that start before their turn (Task::after): the rank requests their data as soon as
// their output is free, and the network transfers it while kernels run.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/exchange/staging_memory.h"
#include "runtime/executor/internal/actor_messages.h"
#include "runtime/executor/internal/bound_tasks.h"
#include "runtime/executor/internal/record/rank_observer.h"
#include "runtime/executor/internal/record/recorder.h"
#include "runtime/memory/rank_memory.h"

namespace tessera {

/// One exchange with an issue point, in the current step.
struct Prefetch {
  enum class State {
    kWaiting,    // waits for its issue point, its output or staging memory
    kRequested,  // its senders answer when they have filled the data
    kActing,     // its senders have filled the data; what arrives is combined
    kDone,
  };
  TaskId task;
  int issue_position = 0;  // it may start when this many positions of the order list are done
  int area = -1;           // index of its staging memory; -1: it has none
  State state = State::kWaiting;
  Recorder::Time begin = {};
};

/// The prefetches of one rank. Only the first few that have passed their issue point are in flight,
/// so that little is polled between two kernels.
///
///   threads  the thread of the rank
///   memory   nothing is allocated in the steady state
class PrefetchQueue {
 public:
  PrefetchQueue(const ProgramContext& program, const RankMemory& memory, BoundTasks& tasks,
                ActorMessages& messages, const RankObserver& observer)
      : program_(program),
        memory_(memory),
        tasks_(tasks),
        messages_(messages),
        observer_(observer) {}
  /// Finds the exchanges that may be prefetched and makes staging memory for all exchanges.
  ///   requires  the table of tasks is complete
  void plan();

  bool is_empty() const { return all_.empty(); }
  void begin_step();
  /// nullptr: the task is not prefetched
  Prefetch* find(TaskId task) {
    const int index = is_empty() ? -1 : of_task_[task];
    return index < 0 ? nullptr : &all_[index];
  }
  /// The thread of the rank has done all of its tasks before `position` in the order list.
  void set_position(int position) { position_ = position; }

  /// Advances the prefetches in flight and starts those that may start.  returns  whether any
  /// progressed
  bool advance();
  /// Advances an exchange at its turn.  returns  whether it progressed
  bool advance_due(Prefetch& prefetch) { return advance(prefetch, TaskStream::kHost); }
  /// Has any data arrived for a prefetch in flight?  threads  any, while the rank waits
  bool has_news() const;
  StagingMemory& staging() { return staging_; }

 private:
  bool advance(Prefetch& prefetch, TaskStream stream);
  bool request(Prefetch& prefetch, BoundTask& task, TaskStream stream);
  void finish(Prefetch& prefetch, BoundTask& task, TaskStream stream);

  const ProgramContext& program_;
  const RankMemory& memory_;
  BoundTasks& tasks_;
  ActorMessages& messages_;
  const RankObserver& observer_;
  std::vector<Prefetch> all_;           // by issue_position
  IndexedVector<TaskId, int> of_task_;  // index in all_, or -1
  std::vector<size_t> open_;  // indices in all_: past their issue point and not done, in that order
  size_t next_ = 0;           // the first of all_ that has not been opened
  int position_ = 0;
  Recorder::Time last_end_ = {};  // the end of a prefetch that ended before its turn
  StagingMemory staging_;
};

}  // namespace tessera
