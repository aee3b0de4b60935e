#include "base/solver/internal/prove.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/solver/internal/parallel.h"
#include "base/solver/internal/position.h"
#include "base/solver/internal/reduce.h"

namespace tessera::solver {
namespace {

constexpr int kProofLanes = 4;

/// Costs are whole numbers, so an assignment better than the best known costs at least 1 less. The
/// margin covers sums in doubles.
double closing_limit(double best) {
  return best >= kNever ? kNever : best - 1 + std::max(1e-3, 1e-10 * std::abs(best));
}

/// The node to divide, and the tags of the strategies of the first half.
struct Division {
  int32_t node = -1;  // of the network
  std::vector<int32_t> first;
};

/// Chooses the node whose strategies have the most different bounds, because dividing it raises the
/// bound of one half most. Among equals, it chooses the one whose strategies differ most in their
/// priced memory.
Division choose_division(const Network& network, const Core& core, const Dual& dual) {
  Division division;
  double best_score = -1;
  std::vector<int32_t> order;
  for (int32_t i = 0; i < core.nodes(); ++i) {
    const int32_t count = core.strategies(i);
    if (count < 2) continue;
    order.resize(count);
    std::iota(order.begin(), order.end(), 0);
    const double* bounds = dual.strategy_bounds().data() + core.first[i];
    const double* priced = dual.priced().data() + core.first[i];
    std::ranges::stable_sort(order, {}, [&](int32_t s) { return bounds[s]; });
    const double lifted = bounds[order[count / 2]] - bounds[order[0]];
    double held = 0;
    for (const int32_t s : order) held = std::max(held, priced[s] - core.costs[core.first[i] + s]);
    const double score = lifted * 10 + held + 1e-3 * count;
    if (score <= best_score) continue;
    best_score = score;
    division = {core.network_node[i], {}};
    for (int32_t at = 0; at < (count + 1) / 2; ++at)
      division.first.push_back(network.nodes[division.node].tags[order[at]]);
  }
  return division;
}

/// Drops the strategies whose bound excludes an improvement.
///   returns  how many
int64_t drop_too_dear(Network& network, const Core& core, const Dual& dual, double limit) {
  int64_t dropped = 0;
  for (int32_t i = 0; i < core.nodes() && !network.is_infeasible; ++i) {
    std::vector<char> keep;
    for (int32_t s = 0; s < core.strategies(i); ++s)
      keep.push_back(dual.strategy_bounds()[core.first[i] + s] <= limit);
    const int64_t of_node = std::ranges::count(keep, 0);
    if (of_node > 0) keep_strategies(network, core.network_node[i], keep);
    dropped += of_node;
  }
  return dropped;
}

/// Keeps the strategies of a node that are in the first half, or those that are not.
void keep_half(Network& network, const Division& division, bool first) {
  std::vector<char> keep;
  for (const int32_t tag : network.nodes[division.node].tags)
    keep.push_back((std::ranges::find(division.first, tag) != division.first.end()) == first);
  if (std::ranges::find(keep, 0) != keep.end()) keep_strategies(network, division.node, keep);
}

}  // namespace

Network compacted(const Network& network, std::vector<int32_t>& original) {
  Network result = network;
  result.records.clear();
  result.nodes.clear();
  result.edges.clear();
  original.clear();
  std::vector<int32_t> number(network.nodes.size(), -1);
  for (int32_t i = 0; i < std::ssize(network.nodes); ++i) {
    if (!network.nodes[i].is_alive) continue;
    number[i] = count_of(original);
    original.push_back(i);
    result.nodes.push_back(network.nodes[i]);
    result.nodes.back().edges.clear();
  }
  for (const Network::Edge& edge : network.edges) {
    if (!edge.is_alive) continue;
    const auto e = count_of(result.edges);
    result.edges.push_back(edge);
    result.edges.back().a = number[edge.a];
    result.edges.back().b = number[edge.b];
    result.nodes[number[edge.a]].edges.push_back(e);
    result.nodes[number[edge.b]].edges.push_back(e);
  }
  return result;
}

Prover::Prover(const Network& network, PricesOverTime prices)
    : network_nodes_(network.nodes.size()) {
  open_.push_back({compacted(network, original_), -kNever, std::move(prices)});
}

double Prover::bound() const {
  double smallest = kNever;
  for (const Part& part : open_) smallest = std::min(smallest, part.bound);
  return smallest;
}

void Prover::keep(Lane& lane, const Part& part, const Assignment& tags, double cost) const {
  if (cost >= lane.found_cost) return;
  lane.found_cost = cost;
  const Assignment expanded = part.network.expand(tags, count_of(original_));
  Assignment result(network_nodes_, kNoStrategy);
  for (size_t i = 0; i < original_.size(); ++i) result[original_[i]] = expanded[i];
  lane.found = std::move(result);
}

bool Prover::is_closed_by_sweeps(Lane& lane, const Part& part, const Core& core, Dual& dual,
                                 double best, const std::function<bool()>& stop) const {
  constexpr int kMaxSweeps = 120;
  constexpr int kSweepsBetweenLooks = 20;
  double before = -kNever;
  for (int sweep = 1; sweep <= kMaxSweeps; ++sweep) {
    dual.sweep();
    lane.work += work_of_sweep(core);
    if (dual.bound() >= dual.best_bound()) {
      const Position rounded(core, dual.rounded());
      if (rounded.is_feasible())
        keep(lane, part, core.tags(part.network, rounded.assignment()), rounded.cost());
    }
    const double limit = closing_limit(std::min(best, lane.found_cost));
    // Sums in doubles may have errors, so only the exact sum closes a part.
    if (dual.best_bound() > limit && to_double(certified_bound(core, dual.certificate())) > limit)
      return true;
    const double reach =
        std::min(limit, dual.best_bound() + std::max(1.0, 0.05 * std::abs(dual.best_bound())));
    if (sweep % kSweepsBetweenLooks == 0) {
      if (stop() || dual.best_bound() - before < 1e-3 * (reach - before)) break;
      before = dual.best_bound();
    }
    dual.move_prices(reach);
  }
  return false;
}

void Prover::look_at(Lane& lane, Part part, double best, const std::function<bool()>& stop) const {
  constexpr int kMaxRounds = 3;
  constexpr int64_t kWorkOfReductions = 20'000;
  ++lane.parts;
  for (int round = 1;; ++round) {
    reduce(part.network, stop);
    lane.work += kWorkOfReductions;
    if (part.network.is_infeasible) return;
    const Core core(part.network);
    if (core.nodes() == 0)
      return keep(lane, part, Assignment(part.network.nodes.size(), kNoStrategy), core.constant);
    Dual dual(core);
    dual.set_prices(on_moments(core, part.prices));
    if (is_closed_by_sweeps(lane, part, core, dual, best, stop)) return;
    part.bound = std::max(part.bound, dual.best_bound());
    part.prices = over_time(core, dual.best_prices());
    const Division division = choose_division(part.network, core, dual);
    const int64_t dropped =
        drop_too_dear(part.network, core, dual, closing_limit(std::min(best, lane.found_cost)));
    if (part.network.is_infeasible) return;
    if (stop()) return lane.open.push_back(std::move(part));
    if (dropped * 10 > std::ssize(core.costs) && round < kMaxRounds) continue;
    ensure(division.node >= 0, "reductions leave no node with a single strategy");
    // The more promising half is the next.
    Part other = part;
    keep_half(other.network, division, false);
    keep_half(part.network, division, true);
    if (!other.network.is_infeasible) lane.open.push_back(std::move(other));
    if (!part.network.is_infeasible) lane.open.push_back(std::move(part));
    return;
  }
}

void Prover::run_lane(Lane& lane, int64_t work, double best,
                      const std::function<bool()>& stop) const {
  while (!lane.open.empty() && lane.work < work && !stop()) {
    Part part = std::move(lane.open.back());
    lane.open.pop_back();
    if (part.bound > closing_limit(std::min(best, lane.found_cost))) continue;
    look_at(lane, std::move(part), best, stop);
  }
}

void Prover::round(int64_t work_of_lane, double best, int threads,
                   const std::function<bool()>& stop) {
  // The parts with the least bounds go to different lanes; each lane continues with its last one.
  std::ranges::stable_sort(open_, std::greater<>(), &Part::bound);
  std::vector<Lane> lanes(kProofLanes);
  const size_t dealt = open_.size();
  for (size_t i = 0; i < dealt; ++i)
    lanes[(dealt - 1 - i) % kProofLanes].open.push_back(std::move(open_[i]));
  open_.clear();
  const double smallest = std::min(best, found_cost_);
  std::vector<std::function<void()>> tasks;
  for (Lane& lane : lanes)
    tasks.push_back([&, this] { run_lane(lane, work_of_lane, smallest, stop); });
  run_tasks(tasks, threads);
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
