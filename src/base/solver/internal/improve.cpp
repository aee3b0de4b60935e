#include "base/solver/internal/improve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/solver/internal/min_plus.h"

namespace tessera::solver {

/// The costs of the nodes of one neighbourhood while its prices are computed.
struct Improver::Trial {
  std::vector<int32_t> nodes;
  std::vector<size_t> place;   // by node: position of its costs
  std::vector<double> costs;   // without prices
  std::vector<double> priced;  // with prices
  std::vector<std::pair<int32_t, double>>
      raised;         // moments with a price of their own beyond the known ones
  double spread = 0;  // sum over the nodes of the spread of their costs
  double unit_price = 0;
};

Improver::Improver(const Core& core, Assignment start, uint64_t seed)
    : core_(core),
      position_(core, std::move(start)),
      dice_(seed),
      until_(core.limits.size() + 1, 0),
      mark_(core.nodes(), 0) {
  list_by_moment();
}

/// Blocks are so large that the lists stay short: a piece is in the list of each block that it
/// overlaps.
void Improver::list_by_moment() {
  const size_t largest = 8 * core_.piece_list.size() + 64;
  size_t entries = largest + 1;
  for (moments_of_block_ = 16; entries > largest; moments_of_block_ *= 2) {
    entries = 0;
    for (const Core::Piece& piece : core_.piece_list)
      entries += (piece.end - 1) / moments_of_block_ - piece.begin / moments_of_block_ + 1;
    if (entries <= largest) break;
  }
  const size_t blocks = core_.moments() / moments_of_block_ + 1;
  first_of_block_.assign(blocks + 1, 0);
  const auto for_each = [this](const auto& visit) {
    for (int32_t i = 0; i < core_.nodes(); ++i)
      for (const Core::Piece& piece : core_.pieces(i))
        for (int32_t block = piece.begin / moments_of_block_;
             block <= (piece.end - 1) / moments_of_block_; ++block)
          visit(block, i);
  };
  for_each([this](int32_t block, int32_t) { ++first_of_block_[block + 1]; });
  for (size_t block = 0; block < blocks; ++block)
    first_of_block_[block + 1] += first_of_block_[block];
  std::vector<size_t> place(first_of_block_);
  block_nodes_.resize(first_of_block_.back());
  for_each([&](int32_t block, int32_t node) { block_nodes_[place[block]++] = node; });
}

void Improver::set_prices(const std::vector<double>& prices) {
  for (size_t m = 0; m < prices.size(); ++m) until_[m + 1] = until_[m] + prices[m];
}

void Improver::restart(Assignment assignment) {
  position_ = Position(core_, std::move(assignment));
}

/// Any node, or one that is alive at the tightest moment, where memory can be exchanged.
int32_t Improver::seed_node() {
  const int32_t any = dice_.below(core_.nodes());
  if (position_.slack().moments() == 0 || (position_.is_feasible() && dice_.below(3) > 0))
    return any;
  const int32_t block = position_.slack().tightest() / moments_of_block_;
  const auto count = static_cast<int32_t>(first_of_block_[block + 1] - first_of_block_[block]);
  if (count > 0) return block_nodes_[first_of_block_[block] + dice_.below(count)];
  return any;
}

std::vector<int32_t> Improver::gather(const Neighbourhood& neighbourhood) {
  ++round_;
  std::vector<int32_t> nodes, border;
  const auto take = [&](int32_t node) {
    if (mark_[node] == round_) return;
    mark_[node] = round_;
    nodes.push_back(node);
    border.push_back(node);
  };
  const size_t wanted = std::min(neighbourhood.nodes, core_.nodes());
  for (int32_t seed = 0; seed < neighbourhood.seeds; ++seed) {
    border.clear();
    take(seed_node());
    const size_t until = wanted * (seed + 1) / neighbourhood.seeds;
    while (nodes.size() < until && !border.empty()) {
      const int32_t at = dice_.below(count_of(border));
      const auto neighbours = core_.neighbours(border[at]);
      const size_t before = nodes.size();
      if (!neighbours.empty()) take(neighbours[dice_.below(count_of(neighbours))].node);
      if (nodes.size() > before || dice_.below(4) > 0) continue;
      border[at] = border.back();
      border.pop_back();
    }
  }
  return nodes;
}

void Improver::price(Trial& trial, double factor) const {
  trial.priced = trial.costs;
  trial.raised.clear();
  if (factor == 0) return;
  for (size_t i = 0; i < trial.nodes.size(); ++i)
    for (const Core::Piece& piece : core_.pieces(trial.nodes[i])) {
      const double price = factor * (until_[piece.end] - until_[piece.begin]);
      if (price == 0) continue;
      const Usage* usages = core_.usages(piece);
      for (int32_t s = 0; s < core_.strategies(trial.nodes[i]); ++s)
        trial.priced[trial.place[i] + s] += price * to_double(usages[s]);
    }
}

void Improver::raise_price(Trial& trial, int32_t moment) const {
  double more = trial.unit_price;
  const auto known = std::ranges::find(trial.raised, moment, &std::pair<int32_t, double>::first);
  if (known != trial.raised.end())
    more = std::exchange(known->second, known->second * 2);
  else
    trial.raised.emplace_back(moment, more);
  for (size_t i = 0; i < trial.nodes.size(); ++i)
    for (const Core::Piece& piece : core_.pieces(trial.nodes[i])) {
      if (moment < piece.begin || moment >= piece.end) continue;
      const Usage* usages = core_.usages(piece);
      for (int32_t s = 0; s < core_.strategies(trial.nodes[i]); ++s)
        trial.priced[trial.place[i] + s] += more * to_double(usages[s]);
    }
}

bool Improver::step(const Neighbourhood& neighbourhood) {
  return step_on(gather(neighbourhood), neighbourhood.largest_table);
}

/// The costs of the nodes with all others fixed, and a first estimate of the price of memory among
/// them.
Improver::Trial Improver::trial_of(const std::vector<int32_t>& nodes) {
  Trial trial;
  trial.nodes = nodes;
  ++round_;
  for (const int32_t node : nodes) mark_[node] = round_;
  double cost_spread = 1, usage_spread = 1;
  for (const int32_t node : nodes) {
    trial.place.push_back(trial.costs.size());
    const std::span<const double> own = core_.costs_of(node);
    trial.costs.insert(trial.costs.end(), own.begin(), own.end());
    double* const costs = trial.costs.data() + trial.place.back();
    const auto count = count_of(own);
    for (const Core::Neighbour& neighbour : core_.neighbours(node))
      if (mark_[neighbour.node] != round_)
        add_row(costs, core_.row(neighbour.their_rows, position_[neighbour.node], count), count);
    const double smallest = *std::min_element(costs, costs + count);
    double largest = smallest;
    for (int32_t s = 0; s < count; ++s)
      if (costs[s] < kNever) largest = std::max(largest, costs[s]);
    cost_spread += largest - smallest;
    for (const Core::Piece& piece : core_.pieces(node))
      usage_spread +=
          to_double(*std::max_element(core_.usages(piece), core_.usages(piece) + count));
  }
  trial.unit_price = cost_spread / usage_spread;
  return trial;
}

bool Improver::step_on(std::vector<int32_t> nodes, int64_t largest_table) {
  constexpr int kTries = 10;
  constexpr int64_t kWorkOfTry = 5'000;  // in addition to the tables
  std::vector<double> weights(nodes.size());
  for (double& weight : weights) weight = 0.5 + dice_.unit();
  Elimination elimination(core_, std::move(nodes), largest_table, weights);
  if (elimination.nodes().empty()) return false;
  Trial trial = trial_of(elimination.nodes());
  std::vector<int32_t> chosen, best;
  for (const int32_t node : trial.nodes) best.push_back(position_[node]);
  const auto apply = [&](const std::vector<int32_t>& strategies) {
    for (size_t i = 0; i < trial.nodes.size(); ++i) position_.set(trial.nodes[i], strategies[i]);
  };
  const Worth old = position_.worth();
  Worth smallest = old;
  price(trial, dice_.below(4) > 0 ? 0.5 + dice_.unit() : 0);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    elimination.solve(trial.priced, trial.place, chosen);
    work_ += elimination.work() + kWorkOfTry;
    apply(chosen);
    const Worth worth = position_.worth();
    if (worth <= smallest) {
      smallest = worth;
      best = chosen;
    }
    // From here on prices only rise: a solution that fits, or is already too expensive, does not
    // become cheaper.
    if (worth.missing == 0 || worth.forbidden > old.forbidden ||
        (old.is_feasible() && worth.cost >= old.cost))
      break;
    raise_price(trial, position_.slack().tightest());
  }
  apply(best);
  return smallest < old;
}

void Improver::push(const Neighbourhood& neighbourhood, double noise) {
  Elimination elimination(core_, gather(neighbourhood), neighbourhood.largest_table);
  if (elimination.nodes().empty()) return;
  Trial trial = trial_of(elimination.nodes());
  price(trial, 1);
  const double mean = std::abs(position_.cost()) / core_.nodes();
  for (double& cost : trial.priced) cost += noise * mean * dice_.unit();
  std::vector<int32_t> chosen;
  elimination.solve(trial.priced, trial.place, chosen);
  work_ += elimination.work();
  for (size_t i = 0; i < trial.nodes.size(); ++i) position_.set(trial.nodes[i], chosen[i]);
}

}  // namespace tessera::solver
