// Exchanges that start before their turn (Task::after): the rank asks for what they receive as soon
// as their output is free, and the network brings it while kernels run.
#pragma once

#include <cstddef>
#include <vector>

#include "executor/actor_messages.h"
#include "executor/rank_memory.h"
#include "executor/rank_observer.h"
#include "executor/recorder.h"
#include "executor/staging_memory.h"
#include "executor/task_table.h"

namespace tessera {

/// One exchange with an issue point, in the current step.
struct Prefetch {
  enum class State {
    kWaiting,    // for its issue point, its output or staging memory
    kRequested,  // its senders answer when they have filled what it receives
    kActing,     // its senders have filled it; what arrives is combined
    kDone,
  };
  TaskId task;
  int issue_position = 0;  // it may start when so many positions of the order list are over
  int area = -1;           // of the staging memory; -1: it has none
  State state = State::kWaiting;
  Recorder::Time begin = {};
};

/// The prefetches of one rank. Only the first few that have passed their issue point are in flight,
/// so that little is looked at between two kernels.
///
///   threads  the thread of the rank
///   memory   nothing is allocated in the steady state
class PrefetchQueue {
 public:
  PrefetchQueue(const ProgramContext& program, const RankMemory& memory, TaskTable& tasks,
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

  /// Advances what is in flight and starts what may start.  returns  whether anything was done
  bool advance();
  /// Advances an exchange at its turn.  returns  whether anything was done
  bool advance_due(Prefetch& prefetch) { return advance(prefetch, TaskStream::kHost); }
  /// Has anything arrived for what is in flight?  threads  any, while the rank waits
  bool has_news() const;
  StagingMemory& staging() { return staging_; }

 private:
  bool advance(Prefetch& prefetch, TaskStream stream);
  bool request(Prefetch& prefetch, BoundTask& task, TaskStream stream);
  void finish(Prefetch& prefetch, BoundTask& task, TaskStream stream);

  const ProgramContext& program_;
  const RankMemory& memory_;
  TaskTable& tasks_;
  ActorMessages& messages_;
  const RankObserver& observer_;
  std::vector<Prefetch> all_;           // by issue_position
  IndexedVector<TaskId, int> of_task_;  // index in all_, or -1
  std::vector<size_t> open_;  // of all_: past their issue point and not done; in that order
  size_t next_ = 0;           // of all_: the first that has not been opened
  int position_ = 0;
  Recorder::Time last_end_ = {};  // of a prefetch that ended before its turn
  StagingMemory staging_;
};

}  // namespace tessera
