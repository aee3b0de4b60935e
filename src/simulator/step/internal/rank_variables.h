// The bytes of the variables of each rank.
#pragma once

#include <vector>

#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The variables of a program by class: those of one type and placement have as many bytes.
///   lifetime  the graph outlives it
///   time      O(variables), and O(classes) for a rank
class RankVariables {
 public:
  explicit RankVariables(const TaskGraph& graph);

  /// Without those that rest in a file.
  Bytes in_memory(Rank rank) const { return bytes(rank, false); }
  Bytes in_file(Rank rank) const { return bytes(rank, true); }

 private:
  struct Class {
    Register reg;  // of the first one
    bool is_in_file;
    int64_t count;
  };
  Bytes bytes(Rank rank, bool in_file) const;

  std::vector<Class> classes_;
};

}  // namespace tessera
