// What a rank does ahead of its turn: exchanges that pull from other members and are not far enough
// in the order list to be due.
#pragma once

#include <cstddef>
#include <vector>

#include "executor/recorder.h"
#include "tasks/task_graph.h"

namespace tessera {

/// So many are asked for at a time, and have staging memory.
inline constexpr int kMostAskedAhead = 4;

/// One exchange with Task::after, in the step that runs.
struct AheadExchange {
  enum class State {
    kNotAsked,
    kAsked,   // its senders answer when they have filled what it pulls
    kActing,  // they have told that they did; what has come is put together
    kDone,
  };
  TaskId task;
  int from = 0;   // it may begin when so many places of the order list are over
  int area = -1;  // of the staging memory; -1: it needs none, or has none now
  State state = State::kNotAsked;
  Recorder::Time begin = {};
};

/// Those of a rank. Only a few are under way, so that what is looked at between two kernels is
/// little.
struct AheadExchanges {
  std::vector<AheadExchange> all;      // by `from`
  IndexedVector<TaskId, int> of_task;  // index in all, or -1
  std::vector<size_t> open;  // of all: their places are over and they are not done; in that order
  size_t next = 0;           // of all: the first that is not open yet
  Recorder::Time last_end = {};     // of one that was over ahead of its turn
  std::vector<bool> area_is_taken;  // by area of the staging memory

  bool is_empty() const { return all.empty(); }
  AheadExchange* find(TaskId task) {
    const int at = all.empty() ? -1 : of_task[task];
    return at < 0 ? nullptr : &all[at];
  }
  void begin_step();
};

}  // namespace tessera
