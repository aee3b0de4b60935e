#include "base/solver/internal/dual.h"

#include <algorithm>
#include <cmath>

#include "base/solver/internal/min_plus.h"

namespace tessera::solver {

PricesOverTime over_time(const Core& core, const std::vector<double>& prices) {
  PricesOverTime result;
  for (size_t m = 0; m < prices.size(); ++m)
    if (prices[m] > 0) result.emplace_back(core.first_time[m], prices[m]);
  return result;
}

std::vector<double> on_moments(const Core& core, const PricesOverTime& prices) {
  std::vector<double> result(core.limits.size(), 0);
  for (const auto& [time, price] : prices) {
    const auto after = std::ranges::upper_bound(core.first_time, time);
    if (after != core.first_time.begin()) result[after - core.first_time.begin() - 1] += price;
  }
  return result;
}

Dual::Dual(const Core& core)
    : core_(core),
      prices_(core.limits.size(), 0),
      priced_(core.costs),
      forward_min_(core.nodes(), 0),
      strategy_bounds_(core.costs.size(), -kNever),
      cheapest_(core.nodes(), 0),
      mean_over_(core.limits.size(), 0) {
  size_t place = 0;
  for (const Core::Edge& edge : core.edges) {
    to_a_.push_back(place);
    place += core.strategies(edge.a);
    to_b_.push_back(place);
    place += core.strategies(edge.b);
  }
  messages_.assign(place, 0);
  best_prices_ = prices_;
  best_messages_ = messages_;
}

void Dual::set_prices(std::vector<double> prices) {
  prices_ = std::move(prices);
  price_nodes();
}

std::vector<double> Dual::priced_by(const std::vector<double>& prices) const {
  std::vector<double> until(prices.size() + 1, 0);
  for (size_t m = 0; m < prices.size(); ++m) until[m + 1] = until[m] + prices[m];
  std::vector<double> priced = core_.costs;
  for (int32_t i = 0; i < core_.nodes(); ++i)
    for (const Core::Piece& piece : core_.pieces(i)) {
      const double price = until[piece.end] - until[piece.begin];
      if (price == 0) continue;
      const Usage* usages = core_.usages(piece);
      for (int32_t s = 0; s < core_.strategies(i); ++s)
        priced[core_.first[i] + s] += price * to_double(usages[s]);
    }
  return priced;
}

void Dual::price_nodes() {
  priced_ = priced_by(prices_);
  price_part_ = 0;
  for (size_t m = 0; m < prices_.size(); ++m)
    price_part_ += prices_[m] * to_double(core_.limits[m]);
}

Dual::Around Dual::gather(int32_t node, const std::vector<double>& priced,
                          const std::vector<double>& messages, std::vector<double>& belief) const {
  Around around;
  const int32_t count = core_.strategies(node);
  belief.assign(priced.data() + core_.first[node], priced.data() + core_.first[node + 1]);
  for (const Core::Neighbour& neighbour : core_.neighbours(node)) {
    add_row(belief.data(), messages.data() + place_into(neighbour, node), count);
    ++(neighbour.node > node ? around.later : around.earlier);
  }
  return around;
}

template <bool kForward>
double Dual::half_sweep(double sum_before) {
  std::vector<double> belief, outgoing;
  double sum = sum_before;
  for (int32_t step = 0; step < core_.nodes(); ++step) {
    const int32_t i = kForward ? step : core_.nodes() - 1 - step;
    const int32_t count = core_.strategies(i);
    const double share = gather(i, priced_, messages_, belief).share();
    const auto min_at = std::min_element(belief.begin(), belief.end());
    const double smallest = *min_at;
    if constexpr (kForward) {
      forward_min_[i] = smallest;
      sum += smallest;
    } else {
      // The earlier nodes still have their minima of the forward sweep. With these the sum is a
      // bound at any moment of the backward sweep.
      cheapest_[i] = static_cast<int32_t>(min_at - belief.begin());
      sum += smallest - forward_min_[i];
      for (int32_t s = 0; s < count; ++s) {
        double& known = strategy_bounds_[core_.first[i] + s];
        known = std::max(known, sum + belief[s] - smallest);
      }
    }
    outgoing.resize(count);
    for (const Core::Neighbour& neighbour : core_.neighbours(i)) {
      if ((neighbour.node > i) != kForward) continue;
      const double* incoming = messages_.data() + place_into(neighbour, i);
      for (int32_t s = 0; s < count; ++s)
        outgoing[s] = share * (belief[s] - smallest) - incoming[s];
      min_plus(outgoing.data(), core_.table.data() + neighbour.my_rows, count,
               core_.strategies(neighbour.node), messages_.data() + place_out_of(neighbour, i));
    }
  }
  return sum;
}

double Dual::sweep() {
  bound_ = half_sweep<false>(half_sweep<true>(core_.constant - price_part_));
  if (bound_ > best_) remember();
  return bound_;
}

void Dual::remember() {
  best_ = bound_;
  best_prices_ = prices_;
  best_messages_ = messages_;
}

std::vector<double> Dual::usage_over_limits() const {
  std::vector<double> over(prices_.size() + 1, 0);
  for (int32_t i = 0; i < core_.nodes(); ++i)
    for (const Core::Piece& piece : core_.pieces(i)) {
      const auto held = to_double(core_.usages(piece)[cheapest_[i]]);
      over[piece.begin] += held;
      over[piece.end] -= held;
    }
  for (size_t m = 1; m < over.size(); ++m) over[m] += over[m - 1];
  over.pop_back();
  for (size_t m = 0; m < over.size(); ++m) over[m] -= to_double(core_.limits[m]);
  return over;
}

/// Selects the worst moments with a distance between them, because prices of neighbouring moments
/// would have the same effect.
void Dual::activate_worst() {
  constexpr int kMaxAtOnce = 4;
  const auto count = count_of(prices_);
  const int32_t apart = count / 128;
  std::vector<int32_t> chosen;
  for (int round = 0; round < kMaxAtOnce; ++round) {
    int32_t worst = -1;
    for (int32_t m = 0; m < count; ++m) {
      if (mean_over_[m] <= 0 || (worst >= 0 && mean_over_[m] <= mean_over_[worst])) continue;
      if (std::ranges::all_of(chosen, [&](int32_t other) { return std::abs(m - other) > apart; }))
        worst = m;
    }
    if (worst < 0) break;
    chosen.push_back(worst);
    if (std::ranges::find(active_, worst) == active_.end()) active_.push_back(worst);
  }
}

void Dual::move_prices(double target) {
  if (prices_.empty()) return;
  constexpr double kNew = 0.2;
  const std::vector<double> over = usage_over_limits();
  for (size_t m = 0; m < prices_.size(); ++m)
    mean_over_[m] = has_mean_ ? (1 - kNew) * mean_over_[m] + kNew * over[m] : over[m];
  has_mean_ = true;
  activate_worst();
  if (bound_ >= best_) {
    since_better_ = 0;
    step_ = std::min(step_ * 1.1, 1.5);
  } else if (++since_better_ >= 10 || best_ - bound_ > std::abs(target - best_)) {
    since_better_ = 0;
    step_ = std::max(step_ * 0.66, 1e-4);
    prices_ = best_prices_;
  }
  double norm = 0;
  for (const int32_t m : active_)
    if (mean_over_[m] > 0 || prices_[m] > 0) norm += mean_over_[m] * mean_over_[m];
  if (norm > 0) {
    const double length = step_ * std::max(target - bound_, 1e-6 * std::abs(target)) / norm;
    for (const int32_t m : active_) prices_[m] = std::max(0.0, prices_[m] + length * mean_over_[m]);
  }
  price_nodes();
}

Assignment Dual::rounded() const {
  Assignment assignment(core_.nodes(), kNoStrategy);
  std::vector<double> belief;
  for (int32_t i = 0; i < core_.nodes(); ++i) {
    const int32_t count = core_.strategies(i);
    belief.assign(priced_.data() + core_.first[i], priced_.data() + core_.first[i + 1]);
    for (const Core::Neighbour& neighbour : core_.neighbours(i))
      add_row(belief.data(),
              neighbour.node < i
                  ? core_.row(neighbour.their_rows, assignment[neighbour.node], count)
                  : messages_.data() + place_into(neighbour, i),
              count);
    assignment[i] = index_of_min(belief);
  }
  return assignment;
}

Dual::Certificate Dual::certificate() const {
  Certificate result;
  for (const double price : best_prices_)
    result.prices.push_back(std::llround(std::ldexp(price, kPriceBits)));
  const std::vector<double> priced = priced_by(best_prices_);
  constexpr double kLargest = 1e16;
  result.to_a.resize(core_.edges.size());
  result.to_b.resize(core_.edges.size());
  std::vector<double> belief;
  for (int32_t i = 0; i < core_.nodes(); ++i) {
    // In the backward sweep the node gave each earlier edge a share of its excess over its least
    // cost.
    const double share = gather(i, priced, best_messages_, belief).share();
    const double smallest = *std::ranges::min_element(belief);
    for (const Core::Neighbour& neighbour : core_.neighbours(i)) {
      const double* incoming = best_messages_.data() + place_into(neighbour, i);
      const bool is_a = core_.edges[neighbour.edge].a == i;
      std::vector<int64_t>& messages = (is_a ? result.to_a : result.to_b)[neighbour.edge];
      for (size_t s = 0; s < belief.size(); ++s) {
        const double given = neighbour.node < i ? share * (belief[s] - smallest) : 0;
        // Any message is valid, so one that a forbidden strategy made infinite is limited to the
        // range.
        messages.push_back(std::llround(
            std::ldexp(std::clamp(incoming[s] - given, -kLargest, kLargest), kMessageBits)));
      }
    }
  }
  return result;
}

}  // namespace tessera::solver
