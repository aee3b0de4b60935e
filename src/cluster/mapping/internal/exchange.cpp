#include <algorithm>
#include <deque>

#include "cluster/mapping/internal/methods.h"

namespace tessera {
namespace {

/// In trees of at most this size a rank may go to every place; in larger ones near its neighbors.
constexpr int kSmallTree = 64;
/// Of the places beside a neighbor, so many are tried.
constexpr int kMaxSiblings = 32;

class Exchanges {
 public:
  Exchanges(const MappingProblem& problem, Places& places, int64_t max_priced)
      : problem_(problem),
        places_(places),
        priced_left_(max_priced),
        rank_at_(problem.tree.size(), -1),
        is_queued_(problem.graph.size(), true),
        is_listed_(problem.tree.size(), false) {
    for (Rank rank = 0; rank < problem.graph.size(); ++rank) {
      rank_at_[places[rank]] = rank;
      queue_.push_back(rank);
    }
    // A gain below the rounding of the whole cost is none.
    min_gain_ = 1e-13 * places_cost(problem, places);
  }

  bool run() {
    bool fell = false;
    while (!queue_.empty() && priced_left_ > 0) {
      const Rank rank = queue_.front();
      queue_.pop_front();
      is_queued_[rank] = false;
      while (improve(rank) && priced_left_ > 0) fell = true;
    }
    return fell;
  }

 private:
  bool improve(Rank rank) {
    list_choices(rank);
    Place best = -1;
    double best_change = -min_gain_;
    for (Place place : choices_) {
      is_listed_[place] = false;
      if (place == places_[rank] || !may_exchange(rank, place)) continue;
      priced_left_ -= 2 * std::ssize(problem_.graph.edges(rank));
      const double now = change(rank, place);
      if (now >= best_change) continue;
      best_change = now;
      best = place;
    }
    if (best < 0) return false;
    const Rank other = rank_at_[best];
    const Place left = places_[rank];
    move(rank, best);
    rank_at_[left] = other;
    if (other >= 0) move(other, left);
    enqueue_around(rank);
    if (other >= 0) enqueue_around(other);
    return true;
  }
  bool may_exchange(Rank rank, Place place) const {
    const Rank other = rank_at_[place];
    return problem_.fit(rank, place) && (other < 0 || problem_.fit(other, places_[rank]));
  }
  /// How the cost changes when the rank goes to the place, and the rank there comes back.
  double change(Rank rank, Place place) const {
    const Rank other = rank_at_[place];
    double sum = moved(rank, places_[rank], place, other);
    if (other >= 0) sum += moved(other, place, places_[rank], rank);
    return sum;
  }
  double moved(Rank rank, Place from, Place to, Rank without) const {
    double sum = 0;
    for (const RankEdge& edge : problem_.graph.edges(rank)) {
      if (edge.to == without) continue;
      const Place at = places_[edge.to];
      sum += edge_price(edge, problem_.tree.link(to, at)) -
             edge_price(edge, problem_.tree.link(from, at));
    }
    return sum;
  }
  void list_choices(Rank rank) {
    choices_.clear();
    if (problem_.tree.size() <= kSmallTree) {
      for (Place p = 0; p < problem_.tree.size(); ++p) choices_.push_back(p);
      return;
    }
    const auto list = [&](Place beside) {
      const auto [begin, end] = problem_.tree.siblings(beside);
      const int count = std::min(end - begin, kMaxSiblings);
      for (int i = 0; i < count; ++i) {
        const Place p = begin + (beside - begin + i) % (end - begin);
        if (is_listed_[p]) continue;
        is_listed_[p] = true;
        choices_.push_back(p);
      }
    };
    if (problem_.tree.has_direct_links()) list(places_[rank]);
    for (const RankEdge& edge : problem_.graph.edges(rank))
      if (problem_.tree.parent(places_[edge.to]) != problem_.tree.parent(places_[rank]))
        list(places_[edge.to]);
  }
  void move(Rank rank, Place place) {
    places_[rank] = place;
    rank_at_[place] = rank;
  }
  void enqueue_around(Rank rank) {
    enqueue(rank);
    for (const RankEdge& edge : problem_.graph.edges(rank)) enqueue(edge.to);
  }
  void enqueue(Rank rank) {
    if (is_queued_[rank]) return;
    is_queued_[rank] = true;
    queue_.push_back(rank);
  }

  const MappingProblem& problem_;
  Places& places_;
  int64_t priced_left_;
  double min_gain_ = 0;
  std::vector<Rank> rank_at_;  // by place; -1: free
  std::deque<Rank> queue_;
  std::vector<bool> is_queued_;
  std::vector<bool> is_listed_;  // by place: in choices_
  std::vector<Place> choices_;
};

/// The problem of exchanging whole groups: the ranks in each group of places are one rank.
bool exchange_groups_of(const MappingProblem& problem, Places& places, int height,
                        int64_t max_priced) {
  const std::vector<Place> group = problem.tree.groups(height);
  const int groups = group.back() + 1;
  std::vector<int> of_rank;
  for (Place place : places) of_rank.push_back(group[place]);
  MappingProblem coarse{
      problem.graph.contract(of_rank, groups), problem.tree.contract(height), {}, {}};
  // Only groups of places that are alike change their ranks.
  int shapes = 0;
  for (Place g = 0; g < groups; ++g) {
    coarse.need.push_back(coarse.tree.type(g));
    shapes = std::max(shapes, coarse.tree.type(g) + 1);
  }
  coarse.fits.assign(shapes, std::vector<bool>(shapes, false));
  for (int shape = 0; shape < shapes; ++shape) coarse.fits[shape][shape] = true;
  Places moved(groups);
  for (Place g = 0; g < groups; ++g) moved[g] = g;
  if (!exchange(coarse, moved, max_priced)) return false;
  std::vector<Place> first(groups, -1);
  for (Place p = problem.tree.size() - 1; p >= 0; --p) first[group[p]] = p;
  for (Place& place : places) place = first[moved[group[place]]] + (place - first[group[place]]);
  return true;
}

}  // namespace

bool exchange(const MappingProblem& problem, Places& places, int64_t max_priced) {
  if (problem.graph.size() == 0) return false;
  return Exchanges(problem, places, max_priced).run();
}

bool exchange_groups(const MappingProblem& problem, Places& places, int64_t max_priced) {
  bool fell = false;
  const DeviceTree& tree = problem.tree;
  for (int height = tree.height() - 1; height >= 1; --height)
    if (tree.direct_height() <= height)
      fell = exchange_groups_of(problem, places, height, max_priced) || fell;
  return exchange(problem, places, max_priced) || fell;
}

}  // namespace tessera
