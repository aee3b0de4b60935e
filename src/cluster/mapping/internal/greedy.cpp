#include <algorithm>
#include <limits>

#include "cluster/mapping/internal/methods.h"

namespace tessera {
namespace {

/// The free places of a tree, by node and type.
class FreePlaces {
 public:
  FreePlaces(const DeviceTree& tree, int types)
      : tree_(tree),
        is_free_(tree.size(), true),
        free_(tree.nodes().size(), std::vector<int>(types, 0)) {
    for (Place place = 0; place < tree.size(); ++place) count(place, 1);
  }
  void take(Place place) {
    is_free_[place] = false;
    count(place, -1);
  }
  bool has(int node, int type) const { return free_[node][type] > 0; }
  /// The first one of the type in a node that has one.
  Place first(int node, int type) const {
    while (!tree_.nodes()[node].children.empty()) {
      const std::vector<int>& children = tree_.nodes()[node].children;
      node = *std::find_if(children.begin(), children.end(),
                           [&](int child) { return has(child, type); });
    }
    Place place = tree_.nodes()[node].begin;
    while (!is_free_[place] || tree_.type(place) != type) ++place;
    return place;
  }
  bool is_free(Place place) const { return is_free_[place]; }

 private:
  void count(Place place, int change) {
    for (int n = tree_.parent(place); n >= 0; n = tree_.nodes()[n].parent)
      free_[n][tree_.type(place)] += change;
  }

  const DeviceTree& tree_;
  std::vector<bool> is_free_;
  std::vector<std::vector<int>> free_;
};

/// The places for a rank: near each placed neighbor, on each level the first free one; with direct
/// links all of the innermost group.
std::vector<Place> choices(const MappingProblem& problem, const Places& places, Rank rank,
                           const std::vector<int>& quota, const FreePlaces& free) {
  const DeviceTree& tree = problem.tree;
  std::vector<Place> found;
  const auto add_first = [&](int node) {
    for (size_t type = 0; type < quota.size(); ++type)
      if (quota[type] > 0 && free.has(node, static_cast<int>(type)))
        found.push_back(free.first(node, static_cast<int>(type)));
  };
  for (const RankEdge& edge : problem.graph.edges(rank)) {
    if (places[edge.to] < 0) continue;
    const auto [begin, end] = tree.siblings(places[edge.to]);
    for (Place p = begin; p < end && tree.has_direct_links(); ++p)
      if (free.is_free(p) && quota[tree.type(p)] > 0) found.push_back(p);
    for (int n = tree.parent(places[edge.to]); n >= 0; n = tree.nodes()[n].parent) add_first(n);
  }
  add_first(0);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

Places map_greedily(const MappingProblem& problem, std::vector<std::vector<int>> quota) {
  Places places(problem.graph.size(), -1);
  FreePlaces free(problem.tree, static_cast<int>(problem.fits.front().size()));
  for (Rank rank = 0; rank < problem.graph.size(); ++rank) {
    std::vector<int>& own = quota[problem.need[rank]];
    double smallest = std::numeric_limits<double>::infinity();
    for (Place place : choices(problem, places, rank, own, free)) {
      double cost = 0;
      for (const RankEdge& edge : problem.graph.edges(rank))
        if (places[edge.to] >= 0)
          cost += edge_price(edge, problem.tree.link(place, places[edge.to]));
      if (cost >= smallest) continue;
      smallest = cost;
      places[rank] = place;
    }
    free.take(places[rank]);
    --own[problem.tree.type(places[rank])];
  }
  return places;
}

}  // namespace tessera
