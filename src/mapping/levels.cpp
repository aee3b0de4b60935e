#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

#include "mapping/methods.h"

namespace tessera {
namespace {

/// By height, from 0: the places of each group; empty when they differ.
std::vector<int> group_sizes(const DeviceTree& tree) {
  std::vector<int> sizes(tree.height() + 1, 0);
  sizes[0] = 1;
  for (const DeviceTree::Node& node : tree.nodes()) {
    int& size = sizes[node.height];
    if (size != 0 && size != node.size()) return {};
    size = node.size();
  }
  for (size_t h = 1; h < sizes.size(); ++h) {
    if (sizes[h] == 0) sizes[h] = sizes[h - 1];
    if (sizes[h] % sizes[h - 1] != 0) return {};
  }
  return sizes;
}

/// Groups of equal size: each grows by the vertex that has most traffic with it.
class Grouping {
 public:
  Grouping(const RankGraph& graph, const LinkPrice& link, int size)
      : graph_(graph), link_(link), group_(graph.size(), -1), with_all_(graph.size(), 0),
        with_group_(graph.size(), 0), degree_(graph.size(), 0) {
    for (int v = 0; v < graph.size(); ++v) {
      for (const RankEdge& edge : graph.edges(v)) degree_[v] += edge_price(edge, link);
      seeds_.emplace(0, degree_[v], -v);
    }
    for (int group = 0; group < graph.size() / size; ++group) {
      add(next_seed(), group);
      for (int i = 1; i < size; ++i) add(next_of_group(), group);
      for (int v : touched_) with_group_[v] = 0;
      touched_.clear();
      near_ = {};
    }
  }
  std::vector<int> groups() { return std::move(group_); }

 private:
  using Entry = std::tuple<double, double, int>;

  void add(int v, int group) {
    group_[v] = group;
    for (const RankEdge& edge : graph_.edges(v)) {
      if (group_[edge.to] >= 0) continue;
      const double price = edge_price(edge, link_);
      with_all_[edge.to] += price;
      with_group_[edge.to] += price;
      touched_.push_back(edge.to);
      near_.emplace(with_group_[edge.to], with_all_[edge.to] - degree_[edge.to], -edge.to);
      seeds_.emplace(with_all_[edge.to], degree_[edge.to], -edge.to);
    }
  }
  /// The vertex that has most traffic with finished groups.
  int next_seed() {
    while (true) {
      const auto [traffic, degree, negative] = seeds_.top();
      seeds_.pop();
      if (group_[-negative] < 0 && traffic == with_all_[-negative]) return -negative;
    }
  }
  int next_of_group() {
    while (!near_.empty()) {
      const auto [traffic, outside, negative] = near_.top();
      near_.pop();
      if (group_[-negative] < 0 && traffic == with_group_[-negative]) return -negative;
    }
    return next_seed();
  }

  const RankGraph& graph_;
  LinkPrice link_;
  std::vector<int> group_;
  std::vector<double> with_all_, with_group_, degree_;
  std::vector<int> touched_;
  std::priority_queue<Entry> near_;
  std::priority_queue<Entry> seeds_;
};

/// A link that joins two groups of the height, for weights of edges.
LinkPrice link_above(const DeviceTree& tree, int height) {
  for (size_t n = tree.nodes().size(); n-- > 0;)
    if (tree.nodes()[n].height > height && tree.nodes()[n].size() > 1) {
      const DeviceTree::Node& node = tree.nodes()[n];
      return tree.link(node.begin, node.end - 1);
    }
  return {};
}

}  // namespace

std::optional<Places> map_by_levels(const MappingProblem& problem) {
  const DeviceTree& tree = problem.tree;
  const std::vector<int> sizes = group_sizes(tree);
  for (const auto& row : problem.fits)
    for (Place p = 0; p < tree.size(); ++p)
      if (!row[tree.type(p)]) return std::nullopt;
  if (sizes.empty()) return std::nullopt;
  // Ranks without traffic fill the places that stay free.
  std::vector<int> same(problem.graph.size());
  std::iota(same.begin(), same.end(), 0);
  RankGraph graph = problem.graph.contract(same, tree.size());
  std::vector<std::vector<int>> group_of;  // by height: of the groups below it
  for (size_t h = 1; h < sizes.size(); ++h) {
    Grouping grouping(graph, link_above(tree, static_cast<int>(h)), sizes[h] / sizes[h - 1]);
    group_of.push_back(grouping.groups());
    graph = graph.contract(group_of.back(), tree.size() / sizes[h]);
  }
  // From the outermost groups inwards: the first place of each group.
  std::vector<Place> first{0};
  for (size_t h = group_of.size(); h-- > 0;) {
    std::vector<int> filled(first.size(), 0);
    std::vector<Place> inner;
    for (int group : group_of[h]) inner.push_back(first[group] + sizes[h] * filled[group]++);
    first = std::move(inner);
  }
  first.resize(problem.graph.size());
  return first;
}

}  // namespace tessera
