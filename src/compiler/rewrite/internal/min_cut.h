// The minimum cut of a directed network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera {

/// A network with capacities. Nodes are numbered from 0.
class FlowNetwork {
 public:
  /// The capacity of an edge that no finite cut has.
  static constexpr int64_t kUnlimited = int64_t{1} << 61;

  explicit FlowNetwork(int nodes) : edges_of_(nodes) {}

  /// Capacities from one node to another add up.
  ///   requires  capacity >= 0; the sum of the limited ones is below kUnlimited
  void add_edge(int from, int to, int64_t capacity);

  /// Of the cuts of least capacity between `source` and `sink`, that one with the fewest nodes on
  /// the side of the sink, as flags: is the node on that side?
  ///   requires  no path of unlimited edges leads from the source to the sink
  ///   time      O(nodes^2 x edges), and far less on graphs of models
  ///   source    Dinic, Soviet Math. Dokl. 11 (1970); Ford and Fulkerson, Can. J. Math. 8 (1956)
  std::vector<bool> sink_side(int source, int sink);

 private:
  struct Edge {
    int to = 0;
    int64_t left = 0;  // capacity that no flow uses
  };

  bool find_levels(int source, int sink);
  int64_t push(int source, int sink);

  std::vector<Edge> edges_;  // an edge and its reverse follow each other
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;  // by node: edges before it lead nowhere
};

}  // namespace tessera
