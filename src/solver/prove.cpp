#include "solver/prove.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "solver/position.h"
#include "solver/reduce.h"

namespace tessera::solver {
namespace {

constexpr int kLanes = 4;

/// Costs are whole: what is better than the best known costs at least 1 less. The margin covers sums in doubles.
double closing_limit(double best) {
  return best >= kNever ? kNever : best - 1 + std::max(1e-3, 1e-10 * std::abs(best));
}

using Prices = std::vector<std::pair<Moment, double>>;

Prices prices_of(const Core& core, const std::vector<double>& by_moment) {
  Prices prices;
  for (size_t m = 0; m < by_moment.size(); ++m)
    if (by_moment[m] > 0) prices.emplace_back(core.first_time[m], by_moment[m]);
  return prices;
}

/// At the moments that are still there, or the next before them.
std::vector<double> prices_on(const Core& core, const Prices& prices) {
  std::vector<double> by_moment(core.limits.size(), 0);
  for (const auto& [time, price] : prices) {
    const auto after = std::ranges::upper_bound(core.first_time, time);
    if (after != core.first_time.begin()) by_moment[after - core.first_time.begin() - 1] += price;
  }
  return by_moment;
}

/// Which node to divide, and which of its strategies come first.
struct Division {
  int32_t node = -1;
  std::vector<char> first;
};

/// The node whose strategies the bounds tell apart best: dividing it lifts the bound of one half most. Among equals the one whose
/// strategies differ most in what they cost and hold.
Division choose_division(const Core& core, const Dual& dual) {
  Division division;
  double best_score = -1;
  for (int32_t i = 0; i < core.nodes(); ++i) {
    const int32_t count = core.strategies(i);
    if (count < 2) continue;
    std::vector<int32_t> order(count);
    for (int32_t s = 0; s < count; ++s) order[s] = s;
    const double* bounds = dual.strategy_bounds().data() + core.first[i];
    const double* priced = dual.priced().data() + core.first[i];
    std::ranges::stable_sort(order, {}, [&](int32_t s) { return bounds[s]; });
    const double lifted = bounds[order[count / 2]] - bounds[order[0]];
    double spread = 0;
    for (const int32_t s : order) spread = std::max(spread, priced[s] - core.costs[core.first[i] + s]);
    const double score = lifted * 10 + spread + 1e-3 * count;
    if (score <= best_score) continue;
    best_score = score;
    division.node = i;
    division.first.assign(count, 0);
    for (int32_t at = 0; at < (count + 1) / 2; ++at) division.first[order[at]] = 1;
  }
  return division;
}

}  // namespace

Network compacted(const Network& network, std::vector<int32_t>& original) {
  Network result = network;
  result.records.clear();
  result.nodes.clear();
  result.edges.clear();
  original.clear();
  std::vector<int32_t> number(network.nodes.size(), -1);
  for (size_t i = 0; i < network.nodes.size(); ++i) {
    if (!network.nodes[i].is_alive) continue;
    number[i] = static_cast<int32_t>(original.size());
    original.push_back(static_cast<int32_t>(i));
    result.nodes.push_back(network.nodes[i]);
    result.nodes.back().edges.clear();
  }
  for (const Network::Edge& edge : network.edges) {
    if (!edge.is_alive) continue;
    const auto e = static_cast<int32_t>(result.edges.size());
    result.edges.push_back(edge);
    result.edges.back().a = number[edge.a];
    result.edges.back().b = number[edge.b];
    result.nodes[number[edge.a]].edges.push_back(e);
    result.nodes[number[edge.b]].edges.push_back(e);
  }
  return result;
}

Prover::Prover(const Network& network, Prices prices) : network_nodes_(network.nodes.size()) {
  open_.push_back({compacted(network, original_), -kNever, std::move(prices)});
}

double Prover::bound() const {
  double least = kNever;
  for (const Part& part : open_) least = std::min(least, part.bound);
  return least;
}

void Prover::keep(Lane& lane, const Part& part, const Assignment& tags, double cost) const {
  if (cost >= lane.found_cost) return;
  lane.found_cost = cost;
  const Assignment expanded = part.network.expand(tags, static_cast<int32_t>(original_.size()));
  Assignment result(network_nodes_, kNoStrategy);
  for (size_t i = 0; i < original_.size(); ++i) result[original_[i]] = expanded[i];
  lane.found = std::move(result);
}

void Prover::look_at(Lane& lane, Part part, double best, const std::function<bool()>& stop) const {
  constexpr int kMostSweeps = 120;
  constexpr int kMostRounds = 3;
  ++lane.parts;
  for (int round = 0; round < kMostRounds; ++round) {
    const double limit = closing_limit(std::min(best, lane.found_cost));
    reduce(part.network, stop);
    lane.work += 20'000;
    if (part.network.is_infeasible) return;
    const Core core(part.network);
    if (core.nodes() == 0) return keep(lane, part, Assignment(part.network.nodes.size(), kNoStrategy), core.constant);
    Dual dual(core);
    dual.set_prices(prices_on(core, part.prices));
    double before = -kNever;
    for (int sweep = 1; sweep <= kMostSweeps; ++sweep) {
      dual.sweep();
      lane.work += work_of_sweep(core);
      if (dual.bound() >= dual.best_bound()) {
        const Position rounded(core, dual.rounded());
        if (rounded.is_feasible()) keep(lane, part, core.tags(part.network, rounded.assignment()), rounded.cost());
      }
      // Sums in doubles may err: what closes a part is the exact sum.
      if (dual.best_bound() > limit && static_cast<double>(certified_bound(core, dual.certificate())) > limit) return;
      const double reach = std::min(limit, dual.best_bound() + std::max(1.0, 0.05 * std::abs(dual.best_bound())));
      if (sweep % 20 == 0) {
        if (stop() || dual.best_bound() - before < 1e-3 * (reach - before)) break;
        before = dual.best_bound();
      }
      dual.move_prices(reach);
    }
    part.bound = std::max(part.bound, dual.best_bound());
    part.prices = prices_of(core, dual.best_prices());
    const double new_limit = closing_limit(std::min(best, lane.found_cost));
    int64_t dropped = 0;
    const Division division = choose_division(core, dual);
    std::vector<std::vector<char>> keeps(core.nodes());
    for (int32_t i = 0; i < core.nodes(); ++i) {
      for (int32_t s = 0; s < core.strategies(i); ++s) keeps[i].push_back(dual.strategy_bounds()[core.first[i] + s] <= new_limit);
      dropped += std::ranges::count(keeps[i], 0);
    }
    for (int32_t i = 0; i < core.nodes(); ++i)
      if (std::ranges::find(keeps[i], 0) != keeps[i].end()) keep_strategies(part.network, core.network_node[i], keeps[i]);
    if (part.network.is_infeasible) return;
    if (dropped * 10 > static_cast<int64_t>(core.costs.size()) && round + 1 < kMostRounds && !stop()) continue;
    if (stop()) return lane.open.push_back(std::move(part));
    // Both halves, without what was dropped; the more promising one is next.
    if (division.node < 0) return;
    const int32_t node = core.network_node[division.node];
    std::vector<char> first, second;
    for (size_t s = 0; s < division.first.size(); ++s) {
      if (!keeps[division.node][s]) continue;
      first.push_back(division.first[s]);
      second.push_back(!division.first[s]);
    }
    Part other = part;
    keep_strategies(other.network, node, second);
    keep_strategies(part.network, node, first);
    if (!other.network.is_infeasible) lane.open.push_back(std::move(other));
    if (!part.network.is_infeasible) lane.open.push_back(std::move(part));
    return;
  }
}

void Prover::run_lane(Lane& lane, int64_t work, double best, const std::function<bool()>& stop) const {
  while (!lane.open.empty() && lane.work < work && !stop()) {
    Part part = std::move(lane.open.back());
    lane.open.pop_back();
    if (part.bound > closing_limit(std::min(best, lane.found_cost))) continue;
    look_at(lane, std::move(part), best, stop);
  }
}

void Prover::round(int64_t work_of_lane, double best, int threads, const std::function<bool()>& stop) {
  // The parts with the least bounds go to different lanes; each works on its own from the last.
  std::ranges::stable_sort(open_, std::greater<>(), &Part::bound);
  std::vector<Lane> lanes(kLanes);
  const size_t dealt = open_.size();
  for (size_t i = 0; i < dealt; ++i) lanes[(dealt - 1 - i) % kLanes].open.push_back(std::move(open_[i]));
  open_.clear();
  std::atomic<size_t> next = 0;
  const auto take_lanes = [&] {
    for (size_t lane = next++; lane < lanes.size(); lane = next++) run_lane(lanes[lane], work_of_lane, std::min(best, found_cost_), stop);
  };
  {
    std::vector<std::jthread> helpers;
    for (int thread = 1; thread < std::min(threads, kLanes); ++thread) helpers.emplace_back(take_lanes);
    take_lanes();
  }
  for (Lane& lane : lanes) {
    work_ += lane.work;
    parts_ += lane.parts;
    if (lane.found_cost < found_cost_) {
      found_cost_ = lane.found_cost;
      found_ = std::move(lane.found);
    }
    for (Part& part : lane.open) open_.push_back(std::move(part));
  }
  const double limit = closing_limit(std::min(best, found_cost_));
  std::erase_if(open_, [limit](const Part& part) { return part.bound > limit; });
}

}  // namespace tessera::solver
