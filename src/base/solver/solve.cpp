#include "base/solver/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/solver/internal/prove.h"
#include "base/solver/internal/reduce.h"
#include "base/solver/internal/search.h"

namespace tessera::solver {
namespace {

using Clock = std::chrono::steady_clock;

/// The sums of the costs must be whole numbers in a double.
void check_size(const Problem& problem) {
  const Wide sum = sum_of_largest(problem);
  if (sum < kExactSum) return;
  throw UserError(
      fmt::format("the costs of the problem sum to as much as {}", to_text(sum)),
      "the search adds whole numbers in doubles, which are exact below 9007199254740992",
      "give costs in a coarser unit", ExitCode::kBadData);
}

class Solver {
 public:
  Solver(const Problem& problem, const SolveOptions& options)
      : problem_(problem), options_(options) {}

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
  /// Stays true once it was true; called by one thread at a time.
  bool is_cancelled() const {
    if (is_cancelled_ || !options_.cancel) return is_cancelled_;
    const std::unique_lock lock(cancel_mutex_, std::try_to_lock);
    if (lock && options_.cancel()) is_cancelled_ = true;
    return is_cancelled_;
  }
  bool is_out_of_time() const {
    return is_cancelled() || (!options_.work && now() >= options_.time_limit.value());
  }
  bool is_over() const {
    if (is_out_of_time() || (options_.work && work_ >= *options_.work * 1'000'000)) return true;
    if (!answer_.cost || !answer_.bound) return false;
    return to_double(*answer_.cost - *answer_.bound) <=
           options_.target_gap * to_double(*answer_.cost);
  }

  void search(Network& network) {
    for (bool again = true; again && !is_over();) {
      const Core core(network);
      if (core.nodes() == 0) return decided(network);
      if (std::ssize(core.costs) <= kFewStrategies) {
        // This is often quicker than a search, and then it has a proof.
        Prover prover(network, prices_);
        if (prove(network, prover, kFirstQuantum)) return;
      }
      Search rounds(core, known(network, core), on_moments(core, prices_), target(), options_.seed,
                    [this] { return is_out_of_time(); });
      again = search_core(network, core, rounds);
    }
  }

  /// Runs rounds until the search is over, or until enough strategies are known to be too expensive
  /// that a smaller core is worthwhile.
  bool search_core(Network& network, const Core& core, Search& rounds) {
    int64_t quantum = kFirstQuantum;
    std::optional<Prover> prover;
    work_ += rounds.work();
    prices_ = over_time(core, rounds.dual().best_prices());
    offer_from(network, core, rounds);
    for (int round = 1; !is_over(); ++round) {
      const int64_t before = rounds.work();
      rounds.round(quantum, target(), options_.threads, [this] { return is_out_of_time(); });
      work_ += rounds.work() - before;
      quantum = std::min(quantum * 3 / 2, kLargestQuantum);
      prices_ = over_time(core, rounds.dual().best_prices());
      offer_from(network, core, rounds);
      if (is_over()) break;
      if (!prover && round >= kRoundsBeforeProof && std::ssize(core.costs) <= kMaxStrategiesToProve)
        prover.emplace(network, prices_);
      if (round % 3 == 0 && core.nodes() <= kMaxNodesToRecombine)
        recombine(network, core, rounds, quantum, round);
      // Far from a proof, most of the work is better spent on assignments.
      if (prover && prove(network, *prover, is_far_from_proof() ? quantum / 3 : quantum))
        return false;
      if (!prover && round % 4 == 0 && drop_too_dear(network, core, rounds.dual())) {
        reduce(network, [this] { return is_out_of_time(); });
        if (!network.is_infeasible) return true;
        raise_bound(*answer_.cost);  // all strategies of some node cost more than the best known
        return false;
      }
    }
    return false;
  }

  void offer_from(const Network& network, const Core& core, const Search& rounds) {
    if (rounds.worth().is_feasible())
      offer(network.expand(core.tags(network, rounds.best()), problem_.nodes()));
    offer_bound(core, rounds.dual());
  }

  /// Exact path relinking: each node may take the strategies that good assignments give it, and
  /// sometimes a few that the bound recommends. The resulting problem is reduced and searched by
  /// branching.
  void recombine(const Network& network, const Core& core, Search& rounds, int64_t quantum,
                 int round) {
    std::vector<int32_t> original;
    Network few = compacted(network, original);
    const std::vector<Assignment> bests = rounds.bests();
    const size_t recommended = (round / 3) % 4;
    for (int32_t i = 0; i < core.nodes() && !few.is_infeasible; ++i) {
      std::vector<char> keep(core.strategies(i), 0);
      for (const Assignment& assignment : bests) keep[assignment[i]] = 1;
      std::vector<int32_t> order(keep.size());
      for (int32_t s = 0; s < std::ssize(order); ++s) order[s] = s;
      const double* bounds = rounds.dual().strategy_bounds().data() + core.first[i];
      std::ranges::stable_sort(order, {}, [bounds](int32_t s) { return bounds[s]; });
      for (size_t at = 0; at < std::min(recommended, order.size()); ++at) keep[order[at]] = 1;
      if (std::ranges::find(keep, 0) != keep.end()) keep_strategies(few, i, keep);
    }
    Prover prover(few, prices_);
    prover.round(quantum, target(), options_.threads, [this] { return is_out_of_time(); });
    work_ += prover.work();
    if (!prover.found()) return;
    Assignment tags(network.nodes.size(), kNoStrategy);
    for (size_t i = 0; i < original.size(); ++i) tags[original[i]] = (*prover.found())[i];
    rounds.adopt(core.from_tags(network, tags));
    offer_from(network, core, rounds);
  }

  /// Runs a round of branching.
  ///   returns  whether everything is proved
  bool prove(const Network& network, Prover& prover, int64_t quantum) {
    const double best = target(), known_before = prover.found_cost();
    const int64_t before = prover.work();
    prover.round(quantum, best, options_.threads, [this] { return is_out_of_time(); });
    work_ += prover.work() - before;
    if (prover.found_cost() < std::min(best, known_before))
      offer(network.expand(*prover.found(), problem_.nodes()));
    if (!prover.is_done()) {
      raise_bound(static_cast<Wide>(std::floor(prover.bound())));
      return false;
    }
    branched_parts_ = prover.parts();
    if (!answer_.cost) {
      infeasible(
          fmt::format("{} parts of the problem were searched, and none holds one", prover.parts()));
    } else {
      raise_bound(*answer_.cost);
    }
    return true;
  }

  /// Strategies more expensive than the best known assignment may have been removed, so a bound
  /// above its cost says nothing.
  void raise_bound(Wide bound) {
    if (answer_.cost) bound = std::min(bound, *answer_.cost);
    if (bound <= answer_.bound.value_or(-kForbidden)) return;
    answer_.bound = bound;
    note();
  }

  /// Removes strategies whose bound exceeds the best cost, because they are part of no better
  /// assignment. Only when they are many.
  bool drop_too_dear(Network& network, const Core& core, const Dual& dual) {
    if (!answer_.cost) return false;
    const double cost = to_double(*answer_.cost);
    const double limit = cost + std::max(0.5, 1e-9 * cost);
    const std::vector<double>& bounds = dual.strategy_bounds();
    const auto dear =
        std::ranges::count_if(bounds, [limit](double bound) { return bound > limit; });
    if (dear == 0 || dear * 50 < static_cast<std::ptrdiff_t>(bounds.size())) return false;
    for (int32_t i = 0; i < core.nodes(); ++i) {
      std::vector<char> keep;
      for (int32_t s = 0; s < core.strategies(i); ++s)
        keep.push_back(bounds[core.first[i] + s] <= limit);
      if (std::ranges::find(keep, 0) != keep.end())
        keep_strategies(network, core.network_node[i], keep);
    }
    return true;
  }

  bool is_far_from_proof() const {
    return answer_.cost && answer_.bound &&
           to_double(*answer_.cost - *answer_.bound) > 0.02 * to_double(*answer_.cost);
  }

  double target() const { return answer_.cost ? to_double(*answer_.cost) : kNever; }

  /// Nothing is left to choose: the rest is the best, or the best known assignment is.
  void decided(const Network& network) {
    offer(network.expand(Assignment(network.nodes.size(), kNoStrategy), problem_.nodes()));
    ensure(answer_.cost.has_value(), "what reductions leave is feasible");
    raise_bound(*answer_.cost);
  }

  /// The best assignment in terms of the core, as far as its strategies still exist.
  Assignment known(const Network& network, const Core& core) const {
    if (!answer_.assignment) return {};
    Assignment tags = *answer_.assignment;
    tags.resize(network.nodes.size(), kNoStrategy);
    return core.from_tags(network, tags);
  }

  /// Takes an assignment when it is better than the best known one. The evaluator decides.
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
    const double known_bound = answer_.bound ? to_double(*answer_.bound) : -kNever;
    // A certificate takes as long as some sweeps, so it is made only when it is worthwhile or may
    // end the search.
    const double gap = (answer_.cost ? to_double(*answer_.cost) : target_of(best)) - known_bound;
    if (best <= known_bound || (best - known_bound < 1e-3 * gap &&
                                !(answer_.cost && best > to_double(*answer_.cost) - 1.5)))
      return;
    raise_bound(certified_bound(core, dual.certificate()));
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
    if (answer_.proof == Proof::kInfeasible) return answer_;
    if (answer_.cost && answer_.bound && *answer_.bound >= *answer_.cost) {
      answer_.proof = Proof::kOptimal;
      answer_.proved =
          branched_parts_ > 0
              ? fmt::format("no assignment costs less: {} parts of the problem were closed",
                            branched_parts_)
              : "no assignment costs less: the certified bound is the cost";
    } else if (answer_.bound) {
      answer_.proved = "no assignment costs less than the certified bound";
    } else {
      answer_.proved = "nothing";
    }
    return answer_;
  }

  static constexpr int64_t kFewStrategies = 2'000;
  static constexpr int kRoundsBeforeProof = 3;
  static constexpr int32_t kMaxNodesToRecombine = 50'000;
  static constexpr int64_t kMaxStrategiesToProve = 20'000;
  static constexpr int64_t kFirstQuantum = 4'000'000;
  static constexpr int64_t kLargestQuantum = 40'000'000;

  const Problem& problem_;
  const SolveOptions& options_;
  const Clock::time_point start_ = Clock::now();
  Answer answer_;
  PricesOverTime prices_;
  mutable std::mutex cancel_mutex_;
  mutable std::atomic<bool> is_cancelled_ = false;
  int64_t work_ = 0;
  int64_t branched_parts_ = 0;
};

}  // namespace

Wide sum_of_largest(const Problem& problem) {
  Wide sum = 0;
  const auto add_largest = [&sum](std::span<const Cost> costs) {
    Cost largest = 0;
    for (const Cost cost : costs)
      if (cost < kForbidden) largest = std::max(largest, cost);
    sum += largest;
  };
  for (int32_t i = 0; i < problem.nodes(); ++i) add_largest(problem.costs(problem.node(i)));
  for (int32_t e = 0; e < problem.edges(); ++e) add_largest(problem.costs(problem.edge(e)));
  return sum;
}

Answer solve(const Problem& problem, const SolveOptions& options) {
  return Solver(problem, options).run();
}

}  // namespace tessera::solver
