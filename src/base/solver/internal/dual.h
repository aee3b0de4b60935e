// A lower bound: multipliers price the memory over time, and messages along the edges bound the
// remaining costs.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/solver/internal/core.h"

namespace tessera::solver {

/// Prices of memory at moments of the problem, in ascending order. They are kept when a core is
/// replaced by a smaller one.
using PricesOverTime = std::vector<std::pair<Moment, double>>;

PricesOverTime over_time(const Core& core, const std::vector<double>& prices);
/// The prices by moment of the core: at the moments that still exist, or at the next one before
/// them.
std::vector<double> on_moments(const Core& core, const PricesOverTime& prices);

/// The multipliers and messages of one core, improved sweep by sweep.
///
/// For any multipliers p >= 0 and messages M:
///   cost >= sum over nodes min(own costs + p * usages + messages in)
///         + sum over edges min(costs - messages out) - p * limits.
/// Sweeps leave the minima of the edges at 0.
///   source  Kolmogorov, Convergent tree-reweighted message passing, PAMI 28(10), 2006 (the
///           sweeps); Barahona and Anbil, The volume algorithm, Math. Programming 87, 2000 (the
///           multipliers)
class Dual {
 public:
  explicit Dual(const Core& core);

  /// One sweep forward and one backward under the present multipliers.
  ///   returns  the bound, in doubles
  double sweep();
  /// Moves the multipliers along the amounts by which the cheapest strategies exceed the limits.
  /// `target` is a cost that the optimum does not exceed by much.
  void move_prices(double target);

  double best_bound() const { return best_; }
  /// By strategy of all nodes: a bound on the cost of any answer with it, the best of all sweeps.
  const std::vector<double>& strategy_bounds() const { return strategy_bounds_; }
  double bound() const { return bound_; }
  /// The prices of the best bound, by moment.
  const std::vector<double>& best_prices() const { return best_prices_; }
  const std::vector<double>& prices() const { return prices_; }
  void set_prices(std::vector<double> prices);
  /// A strategy per node, each the cheapest given the nodes before it and the messages from the
  /// nodes after it.
  Assignment rounded() const;
  /// The own costs and the memory at the present prices, by strategy.
  const std::vector<double>& priced() const { return priced_; }

  /// The messages into each end in units of 2^-kMessageBits and the prices in units of
  /// 2^-kPriceBits, as whole numbers, for certified_bound.
  struct Certificate {
    std::vector<int64_t> prices;                   // by moment
    std::vector<std::vector<int64_t>> to_a, to_b;  // by edge
  };
  static constexpr int kPriceBits = 24, kMessageBits = 8;
  /// The certificate of the best bound so far.
  Certificate certificate() const;

 private:
  template <bool kForward>
  double half_sweep(double sum_before);
  std::vector<double> priced_by(const std::vector<double>& prices) const;
  void price_nodes();
  struct Around {
    int32_t earlier = 0, later = 0;  // neighbours
    double share() const { return 1.0 / std::max({later, earlier, 1}); }
  };
  /// The node's priced costs and the messages into it.
  Around gather(int32_t node, const std::vector<double>& priced,
                const std::vector<double>& messages, std::vector<double>& belief) const;
  size_t place_into(const Core::Neighbour& neighbour, int32_t node) const {
    return (core_.edges[neighbour.edge].a == node ? to_a_ : to_b_)[neighbour.edge];
  }
  size_t place_out_of(const Core::Neighbour& neighbour, int32_t node) const {
    return (core_.edges[neighbour.edge].a == node ? to_b_ : to_a_)[neighbour.edge];
  }
  std::vector<double> usage_over_limits() const;
  void activate_worst();
  void remember();

  const Core& core_;
  std::vector<size_t> to_a_, to_b_;  // by edge: positions of the messages
  std::vector<double> messages_;
  std::vector<double> prices_, best_prices_, best_messages_;
  std::vector<double> priced_;
  std::vector<double> forward_min_;  // by node: its minimum in the last forward sweep
  std::vector<double> strategy_bounds_;
  Assignment cheapest_;
  std::vector<double> mean_over_;
  std::vector<int32_t> active_;  // moments whose prices move
  double bound_ = -kNever, best_ = -kNever, price_part_ = 0;
  double step_ = 1.0;
  int since_better_ = 0;
  bool has_mean_ = false;
};

/// The bound that a certificate proves, in exact 128-bit arithmetic. It is slow and shares no code
/// with the sweeps.
Wide certified_bound(const Core& core, const Dual::Certificate& certificate);

}  // namespace tessera::solver
