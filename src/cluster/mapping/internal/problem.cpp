#include "cluster/mapping/internal/problem.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <tuple>

namespace tessera {
namespace {

using Half = std::pair<Rank, RankEdge>;  // one end of an edge, and the edge from there

void sort_and_merge(std::vector<Half>& halves) {
  std::stable_sort(halves.begin(), halves.end(), [](const Half& a, const Half& b) {
    return std::pair(a.first, a.second.to) < std::pair(b.first, b.second.to);
  });
  size_t kept = 0;
  for (size_t i = 0; i < halves.size(); ++i) {
    if (kept > 0 && halves[kept - 1].first == halves[i].first &&
        halves[kept - 1].second.to == halves[i].second.to) {
      halves[kept - 1].second.bytes += halves[i].second.bytes;
      halves[kept - 1].second.messages += halves[i].second.messages;
    } else {
      halves[kept++] = halves[i];
    }
  }
  halves.resize(kept);
}

void set_edges(int ranks, std::vector<Half> halves, std::vector<int>& begin,
               std::vector<RankEdge>& edges) {
  sort_and_merge(halves);
  begin.assign(ranks + 1, 0);
  edges.clear();
  for (const auto& [rank, edge] : halves) {
    ++begin[rank + 1];
    edges.push_back(edge);
  }
  for (int rank = 0; rank < ranks; ++rank) begin[rank + 1] += begin[rank];
}

/// Mixes the bits of a number (the finalizer of SplitMix64).
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

uint64_t bits(double number) {
  return mixed(std::bit_cast<uint64_t>(number));
}

/// Colors by rank that do not depend on numbers of ranks: of its need and of the traffic around it.
std::vector<uint64_t> colors(const RankGraph& graph, const std::vector<int>& need) {
  constexpr int kRounds = 6;
  std::vector<uint64_t> color(graph.size());
  for (Rank r = 0; r < graph.size(); ++r) color[r] = mixed(static_cast<uint64_t>(need[r]));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint64_t> next(color.size());
    for (Rank r = 0; r < graph.size(); ++r) {
      uint64_t sum = mixed(color[r] ^ 1);
      for (const RankEdge& edge : graph.edges(r))
        sum += mixed(color[edge.to] ^ bits(edge.bytes) ^ (bits(edge.messages) << 1));
      next[r] = sum;
    }
    color = std::move(next);
  }
  return color;
}

}  // namespace

RankGraph::RankGraph(int ranks, const std::vector<RankTraffic>& traffic) {
  std::vector<Half> halves;
  halves.reserve(2 * traffic.size());
  for (const RankTraffic& sent : traffic) {
    if (sent.from == sent.to) continue;
    const double bytes = sent.weight * static_cast<double>(sent.bytes.value());
    const double messages = sent.weight * sent.messages;
    if (bytes == 0 && messages == 0) continue;
    halves.push_back({sent.from, {sent.to, bytes, messages}});
    halves.push_back({sent.to, {sent.from, bytes, messages}});
  }
  set_edges(ranks, std::move(halves), begin_, edges_);
}

RankGraph RankGraph::contract(const std::vector<int>& group, int groups) const {
  std::vector<Half> halves;
  for (Rank rank = 0; rank < size(); ++rank)
    for (const RankEdge& edge : edges(rank))
      if (group[rank] != group[edge.to] && group[rank] >= 0 && group[edge.to] >= 0)
        halves.push_back({group[rank], {group[edge.to], edge.bytes, edge.messages}});
  RankGraph made;
  set_edges(groups, std::move(halves), made.begin_, made.edges_);
  return made;
}

RankGraph RankGraph::renamed(const std::vector<Rank>& order) const {
  std::vector<Rank> name(order.size());
  for (size_t i = 0; i < order.size(); ++i) name[order[i]] = static_cast<Rank>(i);
  return contract(name, size());
}

bool fit_everywhere(const MappingProblem& problem) {
  for (const auto& row : problem.fits)
    for (Place p = 0; p < problem.tree.size(); ++p)
      if (!row[problem.tree.type(p)]) return false;
  return true;
}

double places_cost(const MappingProblem& problem, const Places& places) {
  double cost = 0;
  for (Rank rank = 0; rank < problem.graph.size(); ++rank)
    for (const RankEdge& edge : problem.graph.edges(rank))
      if (rank < edge.to)
        cost += edge_price(edge, problem.tree.link(places[rank], places[edge.to]));
  return cost;
}

std::vector<RankTraffic> all_traffic(const MappingInput& input) {
  std::vector<RankTraffic> traffic = input.traffic;
  if (!input.grid) return traffic;
  for (size_t axis = 0; axis < input.grid->axes.size(); ++axis) {
    const std::vector<RankTraffic> sent = axis_traffic(*input.grid, static_cast<int>(axis));
    traffic.insert(traffic.end(), sent.begin(), sent.end());
  }
  return traffic;
}

std::vector<Rank> canonical_order(const RankGraph& graph, const std::vector<int>& need) {
  const std::vector<uint64_t> color = colors(graph, need);
  std::vector<double> degree(graph.size()), joined(graph.size(), 0);
  for (Rank r = 0; r < graph.size(); ++r)
    for (const RankEdge& edge : graph.edges(r)) degree[r] += edge.bytes;
  // The largest first: traffic with the ranks of the order, all traffic, color, number.
  using Entry = std::tuple<double, double, uint64_t, Rank>;
  std::priority_queue<Entry> queue;
  for (Rank r = 0; r < graph.size(); ++r) queue.emplace(0, degree[r], color[r], -r);
  std::vector<bool> is_in(graph.size(), false);
  std::vector<Rank> order;
  while (!queue.empty()) {
    const auto [traffic, all, tint, negative] = queue.top();
    queue.pop();
    const Rank rank = -negative;
    if (is_in[rank] || traffic != joined[rank]) continue;
    is_in[rank] = true;
    order.push_back(rank);
    for (const RankEdge& edge : graph.edges(rank)) {
      if (is_in[edge.to]) continue;
      joined[edge.to] += edge.bytes;
      queue.emplace(joined[edge.to], degree[edge.to], color[edge.to], -edge.to);
    }
  }
  return order;
}

}  // namespace tessera
