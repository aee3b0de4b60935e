// What the methods of mapping work on: the traffic as a graph, the places as a tree, and which rank
// fits on which place.
#pragma once

#include <span>
#include <vector>

#include "cluster/mapping/internal/device_tree.h"
#include "cluster/mapping/internal/mapping_input.h"

namespace tessera {

/// An edge of the graph, with the weighted traffic of both directions.
struct RankEdge {
  Rank to = 0;
  double bytes = 0;
  double messages = 0;
};

inline double edge_price(const RankEdge& edge, const LinkPrice& link) {
  return edge.bytes * link.per_byte + edge.messages * link.per_message;
}

/// The traffic between ranks; each edge stands at both of its ends.
class RankGraph {
 public:
  RankGraph() = default;
  /// Traffic of one pair is added up.
  RankGraph(int ranks, const std::vector<RankTraffic>& traffic);

  int size() const { return static_cast<int>(begin_.size()) - 1; }
  std::span<const RankEdge> edges(Rank rank) const {
    return std::span(edges_).subspan(begin_[rank], begin_[rank + 1] - begin_[rank]);
  }
  /// The graph of groups of ranks: `group` by rank, numbered from 0; -1 for ranks that it leaves
  /// out.
  RankGraph contract(const std::vector<int>& group, int groups) const;
  /// The same graph with other names of ranks: rank `order[i]` becomes i.
  RankGraph renamed(const std::vector<Rank>& order) const;

 private:
  std::vector<int> begin_{0};
  std::vector<RankEdge> edges_;
};

/// By rank: its place; -1 before it has one.
using Places = std::vector<Place>;

struct MappingProblem {
  RankGraph graph;
  DeviceTree tree;
  std::vector<int> need;                // by rank: which row of `fits`
  std::vector<std::vector<bool>> fits;  // by need and type of the place

  bool fit(Rank rank, Place place) const { return fits[need[rank]][tree.type(place)]; }
};

/// Does every rank fit on every place?
bool fit_everywhere(const MappingProblem& problem);

/// The cost of all traffic.
double places_cost(const MappingProblem& problem, const Places& places);

/// All traffic: of the grid, and beside it.
std::vector<RankTraffic> all_traffic(const MappingInput& input);

/// The ranks in an order that their traffic and needs give, and not their numbers: each next one
/// has most traffic with those before it.
std::vector<Rank> canonical_order(const RankGraph& graph, const std::vector<int>& need);

}  // namespace tessera
