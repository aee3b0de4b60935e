// What the classes of ranks (rank_classes.h) execute: the streams of a rank, in order. Classes on
// the same meshes execute the same, so it is kept once for all of them.
#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "simulator/clock/internal/class_actors.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

struct ClassProgram {
  struct Stream {
    /// In the order of the order list; prefetches in that in which they may begin. None: it has no
    /// work.
    std::vector<TaskId> tasks;
    /// By task: the registers that must have been released before it acts.
    std::vector<std::vector<RegisterIndex>> overwrites;
  };
  std::array<Stream, kTaskStreams> streams;
  /// With prefetches, in ascending order: the first task ends before the second one begins. A
  /// prefetched exchange waits for the task at its issue point, and the tasks after its turn wait
  /// for the exchange.
  std::vector<std::pair<TaskId, TaskId>> issue_edges;
};

class ClassPrograms {
 public:
  /// The graph outlives this.
  ///   prefetches  SimulateOptions::prefetch_exchanges
  ClassPrograms(const TaskGraph& graph, const ClassActors& actors, int classes, bool prefetches);

  const ClassProgram& at(int rank_class) const { return programs_[program_of_[rank_class]]; }
  TaskStream stream_of_task(TaskId task) const;
  /// Whether the class has work for the stream; each has its host.
  bool has_stream(int rank_class, TaskStream stream) const {
    return stream == TaskStream::kHost ||
           !at(rank_class).streams[static_cast<size_t>(stream)].tasks.empty();
  }

 private:
  ClassProgram program_of(const std::vector<TaskId>& order) const;
  /// By issue point and producer of their source, and those of another mesh, which may be late to
  /// send, by their turn. Each can end when what is before it in the order list has been done, so
  /// no two ranks wait for each other.
  void sort_prefetches(std::vector<TaskId>& prefetches) const;
  IndexedVector<TaskId, int> positions() const;  // in the order list
  std::vector<std::pair<TaskId, TaskId>> issue_edges(const std::vector<TaskId>& order) const;

  const TaskGraph& graph_;
  const bool prefetches_;
  std::vector<ClassProgram> programs_;
  std::vector<size_t> program_of_;  // by class
};

}  // namespace tessera
