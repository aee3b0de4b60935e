#include "base/solver/internal/search.h"

#include <algorithm>

#include "base/solver/internal/parallel.h"

namespace tessera::solver {
namespace {

constexpr int kSearchLanes = 4;  // in addition to that of the dual
constexpr int kMaxPushes = 8;    // of a lane that is behind
constexpr int64_t kFirstWork = 40'000'000;
// While prices are still inaccurate, work on them is more effective than work with them.
constexpr int64_t kShareOfDual = 4;

/// The given strategies, and for nodes without one the cheapest given the choices so far.
Assignment completed(const Core& core, const Assignment& start) {
  Assignment assignment = start;
  assignment.resize(core.nodes(), kNoStrategy);
  std::vector<double> costs;
  for (int32_t i = 0; i < core.nodes(); ++i) {
    if (assignment[i] != kNoStrategy) continue;
    const std::span<const double> own = core.costs_of(i);
    costs.assign(own.begin(), own.end());
    for (const Core::Neighbour& neighbour : core.neighbours(i)) {
      if (assignment[neighbour.node] == kNoStrategy) continue;
      const double* row =
          core.row(neighbour.their_rows, assignment[neighbour.node], core.strategies(i));
      for (size_t s = 0; s < costs.size(); ++s) costs[s] += row[s];
    }
    assignment[i] = index_of_min(costs);
  }
  return assignment;
}

/// A typical price: the differences of costs among the strategies of a node, divided by those of
/// usages, per unit of usage at one moment.
double usual_price(const Core& core) {
  double costs = 1, usages = 1;
  for (int32_t i = 0; i < core.nodes(); ++i) {
    const std::span<const double> own = core.costs_of(i);
    costs += std::ranges::max(own) - std::ranges::min(own);
    for (const Core::Piece& piece : core.pieces(i))
      usages +=
          (piece.end - piece.begin) *
          to_double(*std::max_element(core.usages(piece), core.usages(piece) + core.strategies(i)));
  }
  return costs / usages;
}

/// Mostly small neighbourhoods for quick progress, sometimes a large one.
Neighbourhood random_neighbourhood(Dice& dice) {
  Neighbourhood result;
  constexpr int32_t kNodes[] = {15, 40, 40, 80, 80, 160};
  constexpr int64_t kTables[] = {3'000, 20'000, 20'000, 60'000};
  result.nodes = kNodes[dice.below(6)];
  result.seeds = 1 + dice.below(3);
  result.largest_table = kTables[dice.below(4)];
  return result;
}

}  // namespace

Search::Search(const Core& core, const Assignment& start, const std::vector<double>& prices,
               double target, uint64_t seed, const std::function<bool()>& stop)
    : core_(core), dual_(core), best_(completed(core, start)) {
  dual_.set_prices(prices);
  worth_ = Position(core, best_).worth();
  // Walks start well only with prices of memory, so a few sweeps come first.
  improve_dual(kFirstWork, target, stop);
  if (!worth_.is_feasible() && (!has_rounded_ || !rounded_worth_.is_feasible()))
    look_for_feasible(stop);
  if (has_rounded_ && rounded_worth_ < worth_) {
    best_ = rounded_;
    worth_ = rounded_worth_;
  }
  for (int lane = 0; lane < kSearchLanes; ++lane) {
    const uint64_t own_seed = seed * 1'000'003 + static_cast<uint64_t>(lane);
    lanes_.push_back({Improver(core, best_, own_seed), Dice(~own_seed), best_, worth_, 0});
  }
}

void Search::improve_dual(int64_t work, double target, const std::function<bool()>& stop) {
  const int64_t of_a_sweep = work_of_sweep(core_);
  const double before = dual_.best_bound();
  for (int64_t done = 0; done < work && !stop(); done += of_a_sweep) {
    dual_.sweep();
    // A target far above the possible bound would make the steps too large.
    const double best = dual_.best_bound();
    dual_.move_prices(std::min(target, best + std::max(1.0, 0.05 * std::abs(best))));
    work_ += of_a_sweep;
    if (dual_.bound() < dual_.best_bound()) continue;
    Assignment rounded = dual_.rounded();
    const Worth worth = Position(core_, rounded).worth();
    if (has_rounded_ && worth > rounded_worth_) continue;
    has_rounded_ = true;
    rounded_ = std::move(rounded);
    rounded_worth_ = worth;
  }
  const double grown = dual_.best_bound() - before;
  settled_rounds_ = grown > 1e-5 * std::abs(target - before) ? 0 : settled_rounds_ + 1;
}

/// Triples the price of memory wherever the cheapest strategies exceed a limit, until they do not.
void Search::look_for_feasible(const std::function<bool()>& stop) {
  constexpr int kRaises = 16;
  std::vector<double> prices = dual_.best_prices();
  const double unit = usual_price(core_);
  for (int raise = 0; raise < kRaises && !stop(); ++raise) {
    dual_.set_prices(prices);
    dual_.sweep();
    work_ += work_of_sweep(core_);
    Assignment rounded = dual_.rounded();
    const Position position(core_, rounded);
    if (!has_rounded_ || position.worth() < rounded_worth_) {
      has_rounded_ = true;
      rounded_ = std::move(rounded);
      rounded_worth_ = position.worth();
    }
    if (position.slack().smallest() >= 0) break;
    for (int32_t m = 0; m < core_.moments(); ++m)
      if (position.slack().at(m) < 0) prices[m] = std::max(3 * prices[m], unit);
  }
  dual_.set_prices(dual_.best_prices());
}

void Search::improve_lane(Lane& lane, int64_t work, const std::function<bool()>& stop) {
  const int64_t max_quiet = std::clamp(core_.nodes() / 4, 25, 400);
  lane.improver.set_prices(dual_prices_);
  const int64_t until = lane.improver.work() + work;
  while (lane.improver.work() < until && !stop()) {
    lane.improver.step(random_neighbourhood(lane.dice));
    const Worth worth = lane.improver.position().worth();
    ++lane.quiet_steps;
    if (worth < lane.worth) {
      lane.worth = worth;
      lane.best = lane.improver.position().assignment();
      lane.quiet_steps = 0;
      lane.pushes = 0;
    } else if (lane.quiet_steps % max_quiet == 0) {
      // A local optimum: continue from a perturbation of the best assignment.
      lane.improver.restart(lane.best);
      lane.improver.push(random_neighbourhood(lane.dice));
      ++lane.pushes;
    }
  }
}

void Search::round(int64_t work_of_lane, double target, int threads,
                   const std::function<bool()>& stop) {
  dual_prices_ = dual_.best_prices();
  const int64_t before = work_of_lanes();
  std::vector<std::function<void()>> tasks;
  if (!is_dual_settled())
    tasks.push_back([&] { improve_dual(kShareOfDual * work_of_lane, target, stop); });
  for (Lane& lane : lanes_) tasks.push_back([&] { improve_lane(lane, work_of_lane, stop); });
  run_tasks(tasks, threads);
  work_ += work_of_lanes() - before;
  combine_lanes();
}

int64_t Search::work_of_lanes() const {
  int64_t sum = 0;
  for (const Lane& lane : lanes_) sum += lane.improver.work();
  return sum;
}

/// A lane that is after and makes no progress continues from the best assignment, or far away from
/// it. The last lane uses the suggestion of the dual while that is new.
void Search::combine_lanes() {
  for (const Lane& lane : lanes_) {
    if (lane.worth >= worth_) continue;
    worth_ = lane.worth;
    best_ = lane.best;
  }
  ++rounds_;
  for (Lane& lane : lanes_) {
    const bool takes_rounded = &lane == &lanes_.back() && has_rounded_;
    const bool is_after = lane.worth != worth_ && (lane.pushes >= kMaxPushes ||
                                                   (lane.pushes == 0 && lane.quiet_steps >= 200));
    if (!takes_rounded && !is_after) continue;
    if (!takes_rounded && lane.pushes > 0 && lane.dice.below(2) == 0)
      lane.improver.push({.nodes = core_.nodes(), .seeds = 3, .largest_table = 3'000},
                         3);  // elsewhere altogether
    else
      lane.improver.restart(takes_rounded ? rounded_ : best_);
    lane.worth = lane.improver.position().worth();
    lane.best = lane.improver.position().assignment();
    lane.quiet_steps = 0;
    lane.pushes = 0;
  }
  has_rounded_ = false;
}

std::vector<Assignment> Search::bests() const {
  std::vector<Assignment> list = {best_};
  for (const Lane& lane : lanes_) list.push_back(lane.best);
  return list;
}

void Search::adopt(const Assignment& assignment) {
  const Worth worth = Position(core_, assignment).worth();
  if (worth >= worth_) return;
  best_ = assignment;
  worth_ = worth;
  Lane& lane = lanes_.front();
  lane.improver.restart(assignment);
  lane.best = assignment;
  lane.worth = worth;
  lane.quiet_steps = 0;
  lane.pushes = 0;
}

}  // namespace tessera::solver
