// Shares the results of a step among the processes: each process has the boxes that its own ranks
// fetched, and receives those of the others.
#pragma once

#include <span>
#include <vector>

#include "runtime/comm/box_combine.h"
#include "runtime/comm/network.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// threads  one caller
/// memory   planned once; nothing is allocated after the first step
class SharedResults {
 public:
  /// `process_of`: by index of the rank among `ranks`.
  SharedResults(const TaskGraph& graph, const std::vector<Rank>& ranks,
                const std::vector<int>& process_of, ProcessNetwork& network);

  /// Completes the results. All processes call it. `results` are whole tensors; before the call
  /// each process has its own boxes in them, and afterwards it has all.
  ///   throws  as HostCollectives::all_gather
  void exchange(std::span<std::byte* const> results, Seconds deadline);

 private:
  /// A box that a rank fetched.
  struct Part {
    int process = 0;
    size_t result = 0;
    int64_t bytes = 0;
    BoxCombine pack, unpack;
  };
  ProcessNetwork& network_;
  std::vector<Part> parts_;  // of each process, in the order of its bytes
  std::vector<std::byte> mine_;
  GatheredBytes gathered_;
};

}  // namespace tessera
