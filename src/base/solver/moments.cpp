#include <algorithm>

#include "base/solver/internal/network.h"

namespace tessera::solver {
namespace {

using Holding = Network::Holding;

template <typename Visit>
void for_each_holding(Network& network, const Visit& visit) {
  for (int32_t i = 0; i < std::ssize(network.nodes); ++i)
    if (network.nodes[i].is_alive)
      for (Holding& holding : network.nodes[i].holdings) visit(i, holding);
}

/// The largest usage above the least of all nodes together, by moment.
std::vector<Usage> max_by_moment(Network& network) {
  std::vector<Usage> maximum(network.limits.size() + 1, 0);
  for_each_holding(network, [&](int32_t, const Holding& holding) {
    const Usage largest = std::ranges::max(holding.usages);
    maximum[holding.begin] += largest;
    maximum[holding.end] -= largest;
  });
  for (size_t m = 1; m < maximum.size(); ++m) maximum[m] += maximum[m - 1];
  return maximum;
}

/// The moments that are kept. Between two neighbouring moments where nothing begins or nothing
/// ends, the one with more live nodes and no larger limit implies the other. A moment is kept only
/// while no kept neighbour implies it.
std::vector<char> binding_moments(Network& network) {
  const size_t count = network.limits.size();
  const std::vector<Usage> maximum = max_by_moment(network);
  std::vector<char> begins(count + 1, 0), ends(count + 1, 0), keep(count, 0);
  for_each_holding(network, [&](int32_t, const Holding& holding) {
    begins[holding.begin] = ends[holding.end] = 1;
  });
  // Flags of what each live list has lost and gained since the last kept moment.
  size_t last = count;
  bool gained = false, lost = false;
  for (size_t m = 0; m < count; ++m) {
    gained |= begins[m] != 0;
    lost |= ends[m] != 0;
    if (maximum[m] <= network.limits[m]) continue;
    if (last < count && !gained && network.limits[m] >= network.limits[last])
      continue;  // the last one implies this
    if (last < count && !lost && network.limits[m] <= network.limits[last])
      keep[last] = 0;  // this implies the last one
    keep[m] = 1;
    last = m;
    gained = lost = false;
  }
  return keep;
}

/// The least number of a range, in blocks.
class RangeLeast {
 public:
  explicit RangeLeast(const std::vector<Usage>& numbers)
      : numbers_(numbers), blocks_(numbers.size() / kBlock + 1, kNone) {
    for (size_t i = 0; i < numbers.size(); ++i)
      blocks_[i / kBlock] = std::min(blocks_[i / kBlock], numbers[i]);
  }

  Usage operator()(size_t begin, size_t end) const {
    Usage smallest = kNone;
    for (; begin < end && begin % kBlock != 0; ++begin)
      smallest = std::min(smallest, numbers_[begin]);
    for (; begin + kBlock <= end; begin += kBlock)
      smallest = std::min(smallest, blocks_[begin / kBlock]);
    for (; begin < end; ++begin) smallest = std::min(smallest, numbers_[begin]);
    return smallest;
  }

 private:
  static constexpr size_t kBlock = 256;
  static constexpr Usage kNone = std::numeric_limits<Usage>::max();

  const std::vector<Usage>& numbers_;
  std::vector<Usage> blocks_;
};

/// Subtracts the noted amounts from the limits.
void take_noted(Network& network) {
  Usage taken = 0;
  for (size_t m = 0; m < network.limits.size(); ++m) {
    taken += network.taken[m];
    network.limits[m] -= taken;
    network.is_infeasible |= network.limits[m] < 0;
  }
  std::ranges::fill(network.taken, 0);
}

/// Forbids a strategy that alone exceeds the remaining limit while it is live.
bool forbid_too_large(Network& network, int32_t index, Usage min_limit,
                      const RangeLeast& smallest) {
  Network::Node& node = network.nodes[index];
  std::vector<char> keep(node.costs.size(), 1);
  for (const Holding& holding : node.holdings) {
    if (std::ranges::max(holding.usages) <= min_limit) continue;
    const Usage slack = smallest(holding.begin, holding.end);
    for (size_t s = 0; s < keep.size(); ++s) keep[s] &= holding.usages[s] <= slack;
  }
  if (std::ranges::find(keep, 0) == keep.end()) return false;
  keep_strategies(network, index, keep);
  if (!network.is_infeasible) settle_holdings(network, node);
  return !network.is_infeasible;
}

/// New numbers of the remaining moments; for moment m, how many before it remain.
std::vector<int32_t> renumbered(const std::vector<char>& keep) {
  std::vector<int32_t> number(keep.size() + 1, 0);
  for (size_t m = 0; m < keep.size(); ++m) number[m + 1] = number[m] + (keep[m] != 0);
  return number;
}

bool renumber_holdings(Network::Node& node, const std::vector<int32_t>& number) {
  std::vector<Holding> kept;
  for (Holding& holding : node.holdings) {
    const int32_t begin = number[holding.begin], end = number[holding.end];
    if (begin == end) continue;
    holding.begin = begin;
    holding.end = end;
    if (!kept.empty() && kept.back().end == begin && kept.back().usages == holding.usages)
      kept.back().end = end;
    else
      kept.push_back(std::move(holding));
  }
  const bool changed = kept.size() != node.holdings.size();
  node.holdings = std::move(kept);
  return changed;
}

}  // namespace

std::vector<int32_t> compress_moments(Network& network) {
  std::vector<int32_t> changed;
  if (network.limits.empty()) return changed;
  for (Network::Node& node : network.nodes)
    if (node.is_alive) settle_holdings(network, node);
  take_noted(network);
  const auto count = count_of(network.nodes);
  const RangeLeast smallest(network.limits);
  const Usage min_limit = std::ranges::min(network.limits);
  for (int32_t i = 0; i < count && !network.is_infeasible; ++i)
    if (network.nodes[i].is_alive && !network.nodes[i].holdings.empty() &&
        forbid_too_large(network, i, min_limit, smallest))
      changed.push_back(i);
  take_noted(network);
  if (network.is_infeasible) return {};
  const std::vector<char> keep = binding_moments(network);
  const std::vector<int32_t> number = renumbered(keep);
  for (int32_t i = 0; i < count; ++i)
    if (network.nodes[i].is_alive && renumber_holdings(network.nodes[i], number))
      changed.push_back(i);
  for (size_t m = 0; m < keep.size(); ++m) {
    if (!keep[m]) continue;
    network.limits[number[m]] = network.limits[m];
    network.first_time[number[m]] = network.first_time[m];
  }
  network.limits.resize(number.back());
  network.taken.assign(network.limits.size() + 1, 0);
  network.first_time.resize(number.back());
  std::ranges::sort(changed);
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  return changed;
}

}  // namespace tessera::solver
