// The results of a step, told to every member: each holds the boxes that its own ranks fetched.
#pragma once

#include <span>
#include <vector>

#include "comm/network.h"
#include "copy/box_combine.h"
#include "tasks/task_graph.h"

namespace tessera {

/// threads  one caller
/// memory   planned once; nothing is allocated after the first step
class SharedResults {
 public:
  /// `members`: by index of the rank among `processes`.
  SharedResults(const TaskGraph& graph, const std::vector<Rank>& processes,
                const std::vector<int>& members, Network& network);

  /// All members meet. `results`: whole tensors, in which each has its own boxes before, and all
  /// afterwards.
  ///   throws  as HostCollectives::all_gather
  void exchange(std::span<std::byte* const> results, Seconds deadline);

 private:
  /// A box that a rank fetched.
  struct Part {
    int member = 0;
    size_t result = 0;
    int64_t bytes = 0;
    BoxCombine pack, unpack;
  };
  Network& network_;
  std::vector<Part> parts_;  // in the order in which each member gives its own
  std::vector<std::byte> mine_;
  GatheredBytes gathered_;
};

}  // namespace tessera
