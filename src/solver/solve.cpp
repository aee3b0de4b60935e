#include "solver/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "solver/reduce.h"
#include "solver/search.h"

namespace tessera::solver {
namespace {

using Clock = std::chrono::steady_clock;

/// Finite costs at their largest; sums of them must be whole in a double.
void check_size(const Problem& problem) {
  constexpr Wide kLargest = Wide{1} << 53;
  Wide sum = 0;
  const auto add_largest = [&sum](std::span<const Cost> costs) {
    Cost largest = 0;
    for (const Cost cost : costs)
      if (cost < kForbidden) largest = std::max(largest, cost);
    sum += largest;
  };
  for (int32_t i = 0; i < problem.nodes(); ++i) add_largest(problem.costs(problem.node(i)));
  for (int32_t e = 0; e < problem.edges(); ++e) add_largest(problem.costs(problem.edge(e)));
  if (sum < kLargest) return;
  throw UserError(fmt::format("the costs of the problem sum to as much as {}", to_text(sum)),
                  "the search adds whole numbers in doubles, which are exact below 9007199254740992", "give costs in a coarser unit",
                  ExitCode::kBadData);
}

class Solver {
 public:
  Solver(const Problem& problem, const SolveOptions& options) : problem_(problem), options_(options) {}

  Answer run() {
    check_size(problem_);
    if (options_.start) offer(*options_.start);
    Network network(problem_);
    reduce(network, [this] { return is_out_of_time(); });
    if (network.is_infeasible) return infeasible("reductions leave some node without a strategy");
    search(network);
    return finished();
  }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool is_cancelled() const { return options_.cancel && options_.cancel(); }
  bool is_out_of_time() const { return is_cancelled() || (!options_.work && now() >= options_.time_limit.value()); }
  bool is_over() const {
    if (is_out_of_time() || (options_.work && work_ >= *options_.work * 1'000'000)) return true;
    if (!answer_.cost || !answer_.bound) return false;
    return static_cast<double>(*answer_.cost - *answer_.bound) <= options_.target_gap * static_cast<double>(*answer_.cost);
  }

  void search(Network& network) {
    for (bool again = true; again && !is_over();) {
      const Core core(network);
      if (core.nodes() == 0) return decided(network);
      Search rounds(core, known(network, core), prices_on(core), target(), options_.seed, [this] { return is_out_of_time(); });
      again = search_core(network, core, rounds);
    }
  }

  /// Rounds until all is over, or until enough strategies are known to be too dear that a smaller core pays.
  bool search_core(Network& network, const Core& core, Search& rounds) {
    int64_t quantum = kFirstQuantum;
    for (int round = 1; !is_over(); ++round) {
      const int64_t before = rounds.work();
      rounds.round(quantum, target(), options_.threads, [this] { return is_out_of_time(); });
      work_ += rounds.work() - before;
      quantum = std::min(quantum * 3 / 2, kLargestQuantum);
      keep_prices(core, rounds.dual());
      if (rounds.worth().is_feasible()) offer(network.expand(core.tags(network, rounds.best()), problem_.nodes()));
      offer_bound(core, rounds.dual());
      if (is_over()) break;
      if (round % 4 == 0 && drop_too_dear(network, core, rounds.dual())) {
        reduce(network, [this] { return is_out_of_time(); });
        if (!network.is_infeasible) return true;
        answer_.bound = answer_.cost;  // all strategies of some node cost more than the best known
        note();
        return false;
      }
    }
    return false;
  }

  /// Strategies whose bound exceeds the best cost take part in nothing better. Only when they are many.
  bool drop_too_dear(Network& network, const Core& core, const Dual& dual) {
    if (!answer_.cost) return false;
    const double cost = static_cast<double>(*answer_.cost);
    const double limit = cost + std::max(0.5, 1e-9 * cost);
    const std::vector<double>& bounds = dual.strategy_bounds();
    const auto dear = std::ranges::count_if(bounds, [limit](double bound) { return bound > limit; });
    if (dear == 0 || dear * 50 < static_cast<std::ptrdiff_t>(bounds.size())) return false;
    for (int32_t i = 0; i < core.nodes(); ++i) {
      std::vector<char> keep;
      for (int32_t s = 0; s < core.strategies(i); ++s) keep.push_back(bounds[core.first[i] + s] <= limit);
      if (std::ranges::find(keep, 0) != keep.end()) keep_strategies(network, core.network_node[i], keep);
    }
    return true;
  }

  double target() const { return answer_.cost ? static_cast<double>(*answer_.cost) : kNever; }

  /// Nothing is left to choose: what is left is best, or the best known is.
  void decided(const Network& network) {
    offer(network.expand(Assignment(network.nodes.size(), kNoStrategy), problem_.nodes()));
    ensure(answer_.cost.has_value(), "what reductions leave is feasible");
    answer_.bound = answer_.cost;
    note();
  }

  /// The best assignment in terms of the core, as far as its strategies are still there.
  Assignment known(const Network& network, const Core& core) const {
    if (!answer_.assignment) return {};
    Assignment tags = *answer_.assignment;
    tags.resize(network.nodes.size(), kNoStrategy);
    return core.from_tags(network, tags);
  }

  void keep_prices(const Core& core, const Dual& dual) {
    prices_.clear();
    for (int32_t m = 0; m < core.moments(); ++m)
      if (dual.best_prices()[m] > 0) prices_.emplace_back(core.first_time[m], dual.best_prices()[m]);
  }

  /// Prices found on an earlier core, at the moments that are still there or the next before them.
  std::vector<double> prices_on(const Core& core) const {
    std::vector<double> prices(core.limits.size(), 0);
    for (const auto& [time, price] : prices_) {
      const auto after = std::ranges::upper_bound(core.first_time, time);
      if (after != core.first_time.begin()) prices[after - core.first_time.begin() - 1] += price;
    }
    return prices;
  }

  /// Takes an assignment when it is better than what is known. The evaluator has the last word.
  void offer(const Assignment& assignment) {
    const Evaluation evaluation = evaluate(problem_, assignment);
    if (!evaluation.feasible() || (answer_.cost && evaluation.cost >= *answer_.cost)) return;
    answer_.assignment = assignment;
    answer_.cost = evaluation.cost;
    answer_.to_best = Seconds(now());
    note();
  }

  void offer_bound(const Core& core, const Dual& dual) {
    const double best = dual.best_bound();
    const double known_bound = answer_.bound ? static_cast<double>(*answer_.bound) : -kNever;
    // Certifying takes as long as some sweeps: only for what is worth it, or what may end the search.
    const double gap = (answer_.cost ? static_cast<double>(*answer_.cost) : target_of(best)) - known_bound;
    if (best <= known_bound || (best - known_bound < 1e-3 * gap && !(answer_.cost && best > static_cast<double>(*answer_.cost) - 1.5))) return;
    const Wide bound = std::max(certified_bound(core, dual.certificate()), answer_.bound.value_or(-kForbidden));
    if (answer_.bound && bound <= *answer_.bound) return;
    // Strategies dearer than the best known are gone: beyond its cost the bound says nothing.
    answer_.bound = answer_.cost ? std::min(bound, *answer_.cost) : bound;
    note();
  }

  static double target_of(double bound) { return bound + std::max(1.0, 0.05 * std::abs(bound)); }

  void note() {
    Improvement improvement{Seconds(now()), answer_.cost, answer_.bound, {}};
    for (const auto& [time, price] : prices_) improvement.binding.push_back(time);
    answer_.trace.push_back(improvement);
    if (options_.on_improvement) options_.on_improvement(answer_.trace.back());
  }

  Answer infeasible(const std::string& why) {
    answer_.proof = Proof::kInfeasible;
    answer_.proved = "no assignment is feasible: " + why;
    return answer_;
  }

  Answer finished() {
    if (answer_.cost && answer_.bound && *answer_.bound >= *answer_.cost) {
      answer_.proof = Proof::kOptimal;
      answer_.proved = "no assignment costs less: the certified bound is the cost";
    } else if (answer_.bound) {
      answer_.proved = "no assignment costs less than the certified bound";
    } else {
      answer_.proved = "nothing";
    }
    return answer_;
  }

  static constexpr int64_t kFirstQuantum = 4'000'000;
  static constexpr int64_t kLargestQuantum = 40'000'000;

  const Problem& problem_;
  const SolveOptions& options_;
  const Clock::time_point start_ = Clock::now();
  Answer answer_;
  std::vector<std::pair<Moment, double>> prices_;
  int64_t work_ = 0;
};

}  // namespace

Answer solve(const Problem& problem, const SolveOptions& options) { return Solver(problem, options).run(); }

}  // namespace tessera::solver
