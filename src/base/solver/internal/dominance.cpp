#include "base/solver/internal/dominance.h"

#include <algorithm>
#include <memory>
#include <span>

#include "base/solver/internal/edge_view.h"

namespace tessera::solver {
namespace {

// Pairs of strategies times entries that are compared at most.
constexpr int64_t kMaxComparisons = 20'000'000;

/// Does r never use more memory than s?
bool holds_no_more(const Network::Node& node, int32_t r, int32_t s) {
  return std::ranges::all_of(node.holdings, [&](const Network::Holding& holding) {
    return holding.usages[r] <= holding.usages[s];
  });
}

/// The largest amount by which r costs more than s; infinite when s is possible and r is not.
Cost worst_difference(std::span<const Cost> r, std::span<const Cost> s) {
  Cost worst = -kInfinite;
  for (size_t t = 0; t < r.size(); ++t)
    if (s[t] < kInfinite) worst = std::max(worst, r[t] >= kInfinite ? kInfinite : r[t] - s[t]);
  return worst;
}

/// The dominated strategies of one node.
class Dominance {
 public:
  Dominance(const Network& network, int32_t index) : node_(network.nodes[index]) {
    for (const int32_t e : node_.edges)
      rows_.push_back(std::make_unique<EdgeView>(network.edges[e], index));
    int64_t entries = 1;
    for (int32_t s = 0; s < node_.strategies(); ++s) min_.push_back(node_.costs[s]);
    for (const auto& rows : rows_) {
      entries += (*rows)->columns;
      std::vector<int32_t>& cheapest = cheapest_.emplace_back();
      for (int32_t s = 0; s < node_.strategies(); ++s) {
        const std::span<const Cost> row = rows->row(s);
        cheapest.push_back(static_cast<int32_t>(std::ranges::min_element(row) - row.begin()));
        min_[s] = plus(min_[s], row[cheapest.back()]);
      }
    }
    max_rivals_ = std::max<int64_t>(1, kMaxComparisons / (entries * node_.strategies()));
  }

  std::vector<char> undominated() const {
    std::vector<int32_t> order(node_.costs.size());
    for (int32_t s = 0; s < std::ssize(order); ++s) order[s] = s;
    std::ranges::stable_sort(order, {}, [this](int32_t s) { return min_[s]; });
    std::vector<char> keep(order.size(), 1);
    // A strategy that dominates another has no larger least cost: it is before it in the order, or
    // next to it with an equal least cost.
    for (int32_t s : order) {
      int64_t rivals = 0;
      for (int32_t r : order) {
        if (rivals >= max_rivals_ || !keep[s] || min_[r] > min_[s]) break;
        if (r == s || !keep[r]) continue;
        ++rivals;
        if (dominates(r, s)) keep[s] = 0;
      }
    }
    return keep;
  }

 private:
  bool dominates(int32_t r, int32_t s) const {
    if (!holds_no_more(node_, r, s) || costs_more_where_cheapest(r, s)) return false;
    Cost difference = node_.costs[r] - node_.costs[s];
    for (const auto& rows : rows_) {
      const Cost worst = worst_difference(rows->row(r), rows->row(s));
      if (worst >= kInfinite) return false;
      difference += worst;
    }
    return difference <= 0;
  }

  /// Does r cost more than s beside the neighbours with which s costs least? Then it does not
  /// dominate s: this tells most pairs apart.
  bool costs_more_where_cheapest(int32_t r, int32_t s) const {
    Cost sum = node_.costs[r];
    for (size_t e = 0; e < rows_.size(); ++e) sum = plus(sum, rows_[e]->row(r)[cheapest_[e][s]]);
    return sum > min_[s];
  }

  const Network::Node& node_;
  std::vector<std::unique_ptr<EdgeView>> rows_;
  std::vector<std::vector<int32_t>> cheapest_;  // by edge and strategy: the neighbour
  std::vector<Cost> min_;
  int64_t max_rivals_ = 1;
};

}  // namespace

std::vector<char> undominated(const Network& network, int32_t node) {
  return Dominance(network, node).undominated();
}

}  // namespace tessera::solver
