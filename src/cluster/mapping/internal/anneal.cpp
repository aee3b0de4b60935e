#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "cluster/mapping/internal/methods.h"
#include "cluster/mapping/internal/uniform_links.h"

namespace tessera {
namespace {

class Annealing {
 public:
  Annealing(const MappingProblem& problem, const UniformLinks& links, const Places& places)
      : links_(links),
        levels_(std::ssize(links.prices())),
        places_(places),
        rank_at_(problem.tree.size(), -1),
        first_(1, 0),
        best_(places) {
    for (Rank rank = 0; rank < problem.graph.size(); ++rank) {
      rank_at_[places[rank]] = rank;
      for (const RankEdge& edge : problem.graph.edges(rank)) {
        to_.push_back(edge.to);
        for (const LinkPrice& link : links.prices()) price_.push_back(edge_price(edge, link));
      }
      first_.push_back(std::ssize(to_));
    }
    for (int height = 1; height < problem.tree.height(); ++height) {
      begin_.emplace_back(problem.tree.size());
      end_.emplace_back(problem.tree.size());
    }
    for (const DeviceTree::Node& node : problem.tree.nodes())
      for (Place p = node.begin; p < node.end && node.height <= std::ssize(begin_); ++p) {
        begin_[node.height - 1][p] = node.begin;
        end_[node.height - 1][p] = node.end;
      }
  }

  /// Cools from a temperature to a part of it.
  void run(double hottest, int64_t moves, int64_t max_priced) {
    constexpr double kColdest = 0.03;
    constexpr int64_t kMovesAtOnce = 256;
    const int64_t priced_at_end = priced_ + max_priced;
    const int64_t priced_at_begin = priced_;
    for (int64_t move = 0; move < moves && priced_ < priced_at_end; ++move) {
      if (move % kMovesAtOnce == 0) {
        const double done = std::max(
            static_cast<double>(move) / static_cast<double>(moves),
            static_cast<double>(priced_ - priced_at_begin) / static_cast<double>(max_priced));
        temperature_ = hottest * std::pow(kColdest, done);
      }
      try_move();
    }
  }
  /// How much less the best mapping costs than the first one.
  double gained() const { return -min_; }
  const Places& best() const { return best_; }
  /// Of an edge over the outermost level.
  double mean_price() const {
    double sum = 0;
    for (size_t e = 0; e < to_.size(); ++e) sum += price_[(e + 1) * levels_ - 1];
    return to_.empty() ? 0 : sum / static_cast<double>(to_.size());
  }
  void restart() {
    places_ = best_;
    std::fill(rank_at_.begin(), rank_at_.end(), -1);
    for (Rank rank = 0; rank < std::ssize(places_); ++rank) rank_at_[places_[rank]] = rank;
    change_ = min_;
  }

 private:
  int64_t below(int64_t count) {
    return static_cast<int64_t>(uniform() * static_cast<double>(count));
  }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  /// Exchanges a rank with one that is closer to one of its neighbors, or moves it there. Each rank
  /// fits everywhere, because places of uniform links are of one type.
  void try_move() {
    const auto rank = static_cast<Rank>(below(std::ssize(places_)));
    const int64_t degree = first_[rank + 1] - first_[rank];
    if (degree == 0) return;
    const Place near = places_[to_[first_[rank] + below(degree)]];
    const int level = links_.level(places_[rank], near);
    if (level == 0) return;
    const auto group = static_cast<size_t>(below(level));
    const Place begin = begin_[group][near];
    const Place place = begin + static_cast<Place>(below(end_[group][near] - begin));
    const Place left = places_[rank];
    const Rank other = rank_at_[place];
    double change = moved(rank, left, place, other);
    if (other >= 0) change += moved(other, place, left, rank);
    if (change > 0 && uniform() >= std::exp(-change / temperature_)) return;
    places_[rank] = place;
    rank_at_[place] = rank;
    rank_at_[left] = other;
    if (other >= 0) places_[other] = left;
    change_ += change;
    if (change_ >= min_ - 1e-13 * std::abs(min_)) return;
    min_ = change_;
    best_ = places_;
  }
  double moved(Rank rank, Place from, Place to, Rank without) {
    double sum = 0;
    for (int64_t e = first_[rank]; e < first_[rank + 1]; ++e) {
      if (to_[e] == without) continue;
      const Place at = places_[to_[e]];
      const double* price = &price_[e * levels_];
      sum += price[links_.level(to, at)] - price[links_.level(from, at)];
    }
    priced_ += first_[rank + 1] - first_[rank];
    return sum;
  }

  const UniformLinks& links_;
  int64_t levels_;
  Places places_;
  std::vector<Rank> rank_at_;                    // by place; -1: free
  std::vector<int64_t> first_;                   // by rank: its first edge
  std::vector<Rank> to_;                         // by edge
  std::vector<double> price_;                    // by edge and level
  std::vector<std::vector<Place>> begin_, end_;  // by level and place: its group
  std::mt19937_64 random_;
  double temperature_ = 0;
  double change_ = 0, min_ = 0;  // of the cost, from the first mapping
  int64_t priced_ = 0;
  Places best_;
};

}  // namespace

bool anneal(const MappingProblem& problem, Places& places, int64_t max_priced) {
  const std::optional<UniformLinks> links = UniformLinks::from(problem.tree);
  if (!links || problem.tree.height() < 2) return false;
  Annealing annealing(problem, *links, places);
  const double mean = annealing.mean_price();
  if (mean == 0) return false;
  constexpr int64_t kMovesARank = 4000;
  for (const double hottest : {1.0, 0.2}) {
    annealing.run(hottest * mean, kMovesARank * std::ssize(places), max_priced / 2);
    annealing.restart();
  }
  constexpr double kRounding = 1e-9;
  if (annealing.gained() <= kRounding * places_cost(problem, places)) return false;
  places = annealing.best();
  return true;
}

}  // namespace tessera
