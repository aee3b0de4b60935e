#include "base/solver/internal/elimination.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/solver/internal/min_plus.h"

namespace tessera::solver {

namespace {

using Around = std::vector<std::vector<int32_t>>;

/// The neighbours among the given nodes, by position.
Around neighbours_among(const Core& core, const std::vector<int32_t>& nodes) {
  std::unordered_map<int32_t, int32_t> place;
  for (int32_t i = 0; i < std::ssize(nodes); ++i) place.emplace(nodes[i], i);
  Around around(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Core::Neighbour& neighbour : core.neighbours(nodes[i]))
      if (const auto found = place.find(neighbour.node); found != place.end())
        around[i].push_back(found->second);
  for (std::vector<int32_t>& list : around) {
    std::ranges::sort(list);  // edges between the same two nodes count once
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return around;
}

/// Removes a node. When it is eliminated, its neighbours become neighbours of each other.
void remove(Around& around, int32_t node, bool eliminates) {
  for (const int32_t other : around[node]) {
    std::erase(around[other], node);
    if (!eliminates) continue;
    for (const int32_t third : around[node])
      if (third != other && std::ranges::find(around[other], third) == around[other].end())
        around[other].push_back(third);
  }
}

/// The nodes to eliminate, and their order.
struct Order {
  std::vector<int32_t> eliminated;  // positions in the given list
  std::vector<char> is_fixed;
};

/// Chooses the smallest table next. When the smallest is too large, the node with the most
/// remaining neighbours is fixed instead.
Order choose_order(const Core& core, const std::vector<int32_t>& nodes, int64_t largest_table,
                   const std::vector<double>& weights) {
  constexpr int64_t kGone = int64_t{1} << 62;
  constexpr int64_t kHuge = int64_t{1} << 40;
  Around around = neighbours_among(core, nodes);
  Order order{{}, std::vector<char>(nodes.size(), 0)};
  const auto table_of = [&](size_t i) {
    int64_t entries = core.strategies(nodes[i]);
    for (const int32_t other : around[i])
      entries = std::min(entries * core.strategies(nodes[other]), kHuge);
    return entries;
  };
  std::vector<int64_t> entries(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) entries[i] = table_of(i);
  for (size_t left = nodes.size(); left > 0; --left) {
    size_t next = index_of_min(entries);
    const bool eliminates = entries[next] <= largest_table;
    if (!eliminates) {
      const auto weight = [&](size_t i) {
        return to_double(std::ssize(around[i])) * (weights.empty() ? 1 : weights[i]);
      };
      for (size_t i = 0; i < nodes.size(); ++i)
        if (entries[i] != kGone && weight(i) > weight(next)) next = i;
    }
    if (eliminates)
      order.eliminated.push_back(static_cast<int32_t>(next));
    else
      order.is_fixed[next] = 1;
    remove(around, static_cast<int32_t>(next), eliminates);
    entries[next] = kGone;
    for (const int32_t other : around[next]) entries[other] = table_of(other);
  }
  return order;
}

}  // namespace

Elimination::Elimination(const Core& core, std::vector<int32_t> nodes, int64_t largest_table,
                         const std::vector<double>& weights) {
  const Order order = choose_order(core, nodes, largest_table, weights);
  std::vector<int32_t> number(nodes.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (order.is_fixed[i]) continue;
    number[i] = count_of(nodes_);
    nodes_.push_back(nodes[i]);
    sizes_.push_back(core.strategies(nodes[i]));
  }
  // Repeats it without the fixed nodes, so that tables contain only the remaining ones.
  Around around = neighbours_among(core, nodes_);
  for (const int32_t place : order.eliminated) {
    const int32_t node = number[place];
    steps_.push_back({node, around[node], {}, {}, {}});
    remove(around, node, true);
  }
  collect_factors(core);
}

void Elimination::collect_factors(const Core& core) {
  std::vector<int32_t> turn(nodes_.size());
  std::unordered_map<int32_t, int32_t> place;
  for (int32_t k = 0; k < std::ssize(steps_); ++k) turn[steps_[k].node] = k;
  for (int32_t i = 0; i < std::ssize(nodes_); ++i) place.emplace(nodes_[i], i);
  for (Step& step : steps_)
    std::ranges::sort(step.scope, std::greater<>(), [&](int32_t node) { return turn[node]; });
  for (int32_t k = 0; k < std::ssize(steps_); ++k) {
    Step& step = steps_[k];
    step.table.resize(1);
    for (const int32_t other : step.scope) step.table.resize(step.table.size() * sizes_[other]);
    step.choice.resize(step.table.size());
    work_ += std::ssize(step.table) * sizes_[step.node];
    const auto in_scope = [&](int32_t node) {
      return static_cast<size_t>(std::ranges::find(step.scope, node) - step.scope.begin());
    };
    for (const Core::Neighbour& neighbour : core.neighbours(nodes_[step.node])) {
      const auto found = place.find(neighbour.node);
      if (found == place.end() || turn[found->second] < k) continue;
      Factor factor{core.table.data() + neighbour.their_rows, -1,
                    std::vector<int64_t>(step.scope.size(), 0)};
      factor.strides[in_scope(found->second)] = sizes_[step.node];
      step.factors.push_back(std::move(factor));
    }
    // The table of the step goes to the step that eliminates the first node of its scope.
    if (step.scope.empty()) continue;
    Step& taker = steps_[turn[step.scope.back()]];
    Factor left{nullptr, k, std::vector<int64_t>(taker.scope.size(), 0)};
    int64_t stride = sizes_[step.scope.back()];
    for (size_t at = step.scope.size() - 1; at-- > 0;) {
      left.strides[std::ranges::find(taker.scope, step.scope[at]) - taker.scope.begin()] = stride;
      stride *= sizes_[step.scope[at]];
    }
    taker.factors.push_back(std::move(left));
  }
}

void Elimination::run(Step& step, const double* own) {
  const int32_t count = sizes_[step.node];
  std::vector<const double*> rows;
  for (const Factor& factor : step.factors)
    rows.push_back(factor.step < 0 ? factor.edge : steps_[factor.step].table.data());
  std::vector<int32_t> digits(step.scope.size(), 0);
  sum_.resize(count);
  for (size_t entry = 0; entry < step.table.size(); ++entry) {
    std::copy_n(own, count, sum_.data());
    for (const double* row : rows) add_row(sum_.data(), row, count);
    const auto smallest = std::min_element(sum_.begin(), sum_.begin() + count);
    step.table[entry] = *smallest;
    step.choice[entry] = static_cast<uint16_t>(smallest - sum_.begin());
    for (size_t at = digits.size(); at-- > 0;) {
      const bool wraps = ++digits[at] == sizes_[step.scope[at]];
      const int64_t steps = wraps ? 1 - digits[at] : 1;
      if (wraps) digits[at] = 0;
      for (size_t f = 0; f < rows.size(); ++f) rows[f] += step.factors[f].strides[at] * steps;
      if (!wraps) break;
    }
  }
}

double Elimination::solve(const std::vector<double>& costs, const std::vector<size_t>& place,
                          std::vector<int32_t>& strategies) {
  double smallest = 0;
  for (Step& step : steps_) {
    run(step, costs.data() + place[step.node]);
    if (step.scope.empty()) smallest += step.table[0];
  }
  strategies.assign(nodes_.size(), 0);
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    size_t entry = 0;
    for (const int32_t other : step->scope) entry = entry * sizes_[other] + strategies[other];
    strategies[step->node] = step->choice[entry];
  }
  return smallest;
}

}  // namespace tessera::solver
