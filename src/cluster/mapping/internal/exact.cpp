#include <algorithm>
#include <limits>

#include "cluster/mapping/internal/methods.h"

namespace tessera {
namespace {

class Search {
 public:
  Search(const MappingProblem& problem, const Places& start, int64_t max_steps)
      : problem_(problem),
        steps_left_(max_steps),
        best_(start),
        best_cost_(places_cost(problem, start)),
        places_(problem.graph.size(), -1),
        is_used_(problem.tree.size(), false),
        used_(problem.tree.nodes().size(), 0) {
    set_nearest();
    double rest = 0;
    for (Rank rank = 0; rank < problem.graph.size(); ++rank)
      for (const RankEdge& edge : problem.graph.edges(rank))
        if (rank < edge.to) rest += edge_price(edge, nearest_of_all_);
    place_from(0, 0, rest);
  }

  bool is_complete() const { return steps_left_ >= 0; }
  const Places& best() const { return best_; }

 private:
  /// The least link of each place, part by part.
  void set_nearest() {
    const DeviceTree& tree = problem_.tree;
    constexpr double kNone = std::numeric_limits<double>::infinity();
    nearest_.assign(tree.size(), {kNone, kNone});
    nearest_of_all_ = {kNone, kNone};
    for (size_t n = 0; n < tree.nodes().size(); ++n) {
      const LinkPrice link = tree.best_link(static_cast<int>(n));
      for (Place p = tree.nodes()[n].begin; p < tree.nodes()[n].end; ++p) take(nearest_[p], link);
      take(nearest_of_all_, link);
    }
  }
  static void take(LinkPrice& smallest, const LinkPrice& link) {
    smallest.per_byte = std::min(smallest.per_byte, link.per_byte);
    smallest.per_message = std::min(smallest.per_message, link.per_message);
  }

  /// `cost` of edges between placed ranks; `rest`: the least cost of all other edges.
  void place_from(Rank rank, double cost, double rest) {
    if (rank == problem_.graph.size()) {
      if (cost < best_cost_) {
        best_cost_ = cost;
        best_ = places_;
      }
      return;
    }
    std::vector<Place> choices;
    collect(0, choices);
    for (Place place : choices) {
      if (!problem_.fit(rank, place)) continue;
      if (--steps_left_ < 0) return;
      double now = cost, left = rest;
      for (const RankEdge& edge : problem_.graph.edges(rank)) {
        if (edge.to < rank) {
          now += edge_price(edge, problem_.tree.link(place, places_[edge.to]));
          left -= edge_price(edge, nearest_[places_[edge.to]]);
        } else {
          left += edge_price(edge, nearest_[place]) - edge_price(edge, nearest_of_all_);
        }
      }
      constexpr double kRounding = 1e-12;
      if (now + left >= best_cost_ * (1 - kRounding)) continue;
      use(place, 1);
      places_[rank] = place;
      place_from(rank + 1, now, left);
      use(place, -1);
    }
  }
  void use(Place place, int change) {
    is_used_[place] = change > 0;
    for (int n = problem_.tree.parent(place); n >= 0; n = problem_.tree.nodes()[n].parent)
      used_[n] += change;
  }
  /// The free places, one for each set of alike ones.
  void collect(int node, std::vector<Place>& choices) const {
    const DeviceTree& tree = problem_.tree;
    const DeviceTree::Node& group = tree.nodes()[node];
    std::vector<int> seen;
    const auto is_new = [&](int shape) {
      if (std::find(seen.begin(), seen.end(), shape) != seen.end()) return false;
      seen.push_back(shape);
      return true;
    };
    for (int child : group.children)
      if (used_[child] > 0 || is_new(tree.nodes()[child].shape)) collect(child, choices);
    for (Place p = group.begin; p < group.end && group.children.empty(); ++p)
      if (!is_used_[p] && is_new(tree.shape(p))) choices.push_back(p);
  }

  const MappingProblem& problem_;
  int64_t steps_left_;
  Places best_;
  double best_cost_;
  Places places_;
  std::vector<bool> is_used_;  // by place
  std::vector<int> used_;      // by node
  std::vector<LinkPrice> nearest_;
  LinkPrice nearest_of_all_;
};

}  // namespace

std::optional<Places> map_exactly(const MappingProblem& problem, const Places& start,
                                  int64_t max_steps) {
  const Search search(problem, start, max_steps);
  if (!search.is_complete()) return std::nullopt;
  return search.best();
}

}  // namespace tessera
