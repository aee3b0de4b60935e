#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

#include "cluster/mapping/internal/methods.h"

namespace tessera {
namespace {

/// A graph whose vertices stand for one or more ranks.
struct Graph {
  struct Edge {
    int to = 0;
    double price = 0;
  };
  std::vector<int> begin{0};
  std::vector<Edge> edges;
  std::vector<int> weight;  // by vertex: its ranks

  int size() const { return static_cast<int>(weight.size()); }
  std::span<const Edge> edges_of(int v) const {
    return std::span(edges).subspan(begin[v], begin[v + 1] - begin[v]);
  }
  int total() const { return std::accumulate(weight.begin(), weight.end(), 0); }
};

/// Builds a graph vertex by vertex; edges to one vertex are added up.
class GraphBuilder {
 public:
  explicit GraphBuilder(int vertices) : at_(vertices, -1) {}
  void add_edge(int to, double price) {
    if (at_[to] < graph_.begin.back()) {
      at_[to] = static_cast<int>(graph_.edges.size());
      graph_.edges.push_back({to, 0});
    }
    graph_.edges[at_[to]].price += price;
  }
  void end_vertex(int weight) {
    graph_.begin.push_back(static_cast<int>(graph_.edges.size()));
    graph_.weight.push_back(weight);
  }
  Graph take() { return std::move(graph_); }

 private:
  Graph graph_;
  std::vector<int> at_;  // by vertex: its last edge
};

/// By vertex of a graph: the vertex of the coarser graph. Two neighbors with much traffic for their
/// weights become one.
std::vector<int> heavy_matching(const Graph& graph, int max_weight) {
  std::vector<int> coarse(graph.size(), -1);
  int count = 0;
  for (int v = 0; v < graph.size(); ++v) {
    if (coarse[v] >= 0) continue;
    int best = -1;
    double largest = 0;
    for (const Graph::Edge& edge : graph.edges_of(v)) {
      const int weight = graph.weight[v] + graph.weight[edge.to];
      if (coarse[edge.to] >= 0 || weight > max_weight) continue;
      const double rating =
          edge.price / (static_cast<double>(graph.weight[v]) * graph.weight[edge.to]);
      if (rating <= largest) continue;
      largest = rating;
      best = edge.to;
    }
    coarse[v] = count;
    if (best >= 0) coarse[best] = count;
    ++count;
  }
  return coarse;
}

Graph contract(const Graph& graph, const std::vector<int>& coarse) {
  const int count = 1 + *std::max_element(coarse.begin(), coarse.end());
  std::vector<std::vector<int>> members(count);
  for (int v = 0; v < graph.size(); ++v) members[coarse[v]].push_back(v);
  GraphBuilder builder(count);
  for (int c = 0; c < count; ++c) {
    int weight = 0;
    for (int v : members[c]) {
      weight += graph.weight[v];
      for (const Graph::Edge& edge : graph.edges_of(v))
        if (coarse[edge.to] != c) builder.add_edge(coarse[edge.to], edge.price);
    }
    builder.end_vertex(weight);
  }
  return builder.take();
}

/// By vertex: whether it is in the left part.
using Side = std::vector<uint8_t>;

/// Moves of single vertices between the parts, each the best one left, of which the best beginning
/// is kept (Fiduccia and Mattheyses, DAC 1982).
class Refinement {
 public:
  Refinement(const Graph& graph, int target, int tolerance, Side& side)
      : graph_(graph), target_(target), tolerance_(tolerance), side_(side) {}

  void run() {
    constexpr int kPasses = 8;
    for (int pass = 0; pass < kPasses; ++pass)
      if (!improve()) break;
  }
  double cut() const {
    double sum = 0;
    for (int v = 0; v < graph_.size(); ++v)
      for (const Graph::Edge& edge : graph_.edges_of(v))
        if (side_[v] != side_[edge.to]) sum += edge.price;
    return sum / 2;
  }

 private:
  /// Worse states first compare by how far they miss the target, then by their cut.
  using State = std::pair<int, double>;
  using Entry = std::tuple<double, int>;  // gain, vertex

  State state(int left, double change) const {
    return {std::max(0, std::abs(left - target_) - tolerance_), change};
  }
  bool improve() {
    constexpr int kMaxFruitless = 200;
    start();
    int left = 0;
    for (int v = 0; v < graph_.size(); ++v) left += side_[v] ? graph_.weight[v] : 0;
    double change = 0;
    const State first = state(left, 0);
    State best = first;
    std::vector<int> moves;
    size_t kept = 0;
    const double min_gain = 1e-12 * all_;
    for (int fruitless = 0; fruitless < kMaxFruitless;) {
      const int v = next(left);
      if (v < 0) break;
      change -= gain_[v];
      left += side_[v] ? -graph_.weight[v] : graph_.weight[v];
      move(v);
      is_locked_[v] = true;
      moves.push_back(v);
      ++fruitless;
      const State now = state(left, change);
      if (now.first > best.first ||
          (now.first == best.first && now.second >= best.second - min_gain))
        continue;
      best = now;
      kept = moves.size();
      fruitless = 0;
    }
    for (size_t i = kept; i < moves.size(); ++i) side_[moves[i]] = !side_[moves[i]];
    return best < first;
  }
  void start() {
    gain_.assign(graph_.size(), 0);
    is_locked_.assign(graph_.size(), 0);
    all_ = 0;
    for (auto& queue : queue_) queue = {};
    for (int v = 0; v < graph_.size(); ++v) {
      for (const Graph::Edge& edge : graph_.edges_of(v)) {
        gain_[v] += side_[edge.to] != side_[v] ? edge.price : -edge.price;
        all_ += edge.price;
      }
      queue_[side_[v]].emplace(gain_[v], -v);
    }
  }
  /// From the part that is too large; from either one when none is.
  int next(int left) {
    int from = left > target_ ? 1 : 0;
    if (left == target_) from = top(1) > top(0) ? 1 : 0;
    if (top(from) == -std::numeric_limits<double>::infinity()) return -1;
    const int v = -std::get<1>(queue_[from].top());
    queue_[from].pop();
    return v;
  }
  double top(int part) {
    auto& queue = queue_[part];
    while (!queue.empty()) {
      const auto [gain, negative] = queue.top();
      if (!is_locked_[-negative] && side_[-negative] == part && gain == gain_[-negative])
        return gain;
      queue.pop();
    }
    return -std::numeric_limits<double>::infinity();
  }
  void move(int v) {
    side_[v] = !side_[v];
    gain_[v] = -gain_[v];
    for (const Graph::Edge& edge : graph_.edges_of(v)) {
      gain_[edge.to] += side_[edge.to] == side_[v] ? -2 * edge.price : 2 * edge.price;
      if (!is_locked_[edge.to]) queue_[side_[edge.to]].emplace(gain_[edge.to], -edge.to);
    }
  }

  const Graph& graph_;
  int target_, tolerance_;
  Side& side_;
  std::vector<double> gain_;
  std::vector<uint8_t> is_locked_;
  double all_ = 0;
  std::priority_queue<Entry> queue_[2];
};

/// The left part grows from a vertex by the one with most traffic with it.
Side grown(const Graph& graph, int seed, int target) {
  Side side(graph.size(), 0);
  std::vector<double> with(graph.size(), 0);
  std::priority_queue<std::pair<double, int>> queue;
  queue.emplace(0, -seed);
  int next = 0, left = 0;
  while (left < target) {
    int v = -1;
    while (!queue.empty() && v < 0) {
      if (!side[-queue.top().second] && queue.top().first == with[-queue.top().second])
        v = -queue.top().second;
      queue.pop();
    }
    while (v < 0) v = side[next] ? (++next, -1) : next;
    side[v] = 1;
    left += graph.weight[v];
    for (const Graph::Edge& edge : graph.edges_of(v)) {
      if (side[edge.to]) continue;
      with[edge.to] += edge.price;
      queue.emplace(with[edge.to], -edge.to);
    }
  }
  return side;
}

int heaviest(const Graph& graph) {
  return *std::max_element(graph.weight.begin(), graph.weight.end());
}

Side best_grown(const Graph& graph, int target) {
  constexpr int kSeeds = 8;
  Side best;
  double smallest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < std::min(kSeeds, graph.size()); ++i) {
    Side side = grown(graph, i * graph.size() / std::min(kSeeds, graph.size()), target);
    Refinement refinement(graph, target, heaviest(graph) - 1, side);
    refinement.run();
    if (const double cut = refinement.cut(); cut < smallest) {
      smallest = cut;
      best = std::move(side);
    }
  }
  return best;
}

/// Two parts with little traffic between them: on a coarse graph first, then on finer ones.
Side bisect(const Graph& graph, int target) {
  constexpr int kCoarsest = 80;
  std::vector<Graph> graphs{graph};
  std::vector<std::vector<int>> coarse;
  while (graphs.back().size() > kCoarsest) {
    std::vector<int> matched =
        heavy_matching(graphs.back(), std::max(2, graph.total() / (kCoarsest / 2)));
    Graph next = contract(graphs.back(), matched);
    if (next.size() > graphs.back().size() * 19 / 20) break;
    coarse.push_back(std::move(matched));
    graphs.push_back(std::move(next));
  }
  Side side = best_grown(graphs.back(), target);
  for (size_t i = coarse.size(); i-- > 0;) {
    Side finer(graphs[i].size());
    for (int v = 0; v < graphs[i].size(); ++v) finer[v] = side[coarse[i][v]];
    side = std::move(finer);
    Refinement(graphs[i], target, heaviest(graphs[i]) - 1, side).run();
  }
  return side;
}

class Bisection {
 public:
  explicit Bisection(const MappingProblem& problem)
      : problem_(problem), places_(problem.tree.size(), -1), index_(problem.tree.size(), -1) {}

  Places run() {
    std::vector<Rank> all(problem_.tree.size());
    std::iota(all.begin(), all.end(), 0);
    fill_node(0, all);
    places_.resize(problem_.graph.size());
    return std::move(places_);
  }

 private:
  /// The first place of each child of a node, and the end of the last one.
  std::vector<Place> bounds_of(const DeviceTree::Node& node) const {
    std::vector<Place> bounds;
    for (int child : node.children) bounds.push_back(problem_.tree.nodes()[child].begin);
    for (Place p = node.begin; p < node.end && node.children.empty(); ++p) bounds.push_back(p);
    bounds.push_back(node.end);
    return bounds;
  }
  void fill_node(int n, const std::vector<Rank>& ranks) {
    const DeviceTree::Node& node = problem_.tree.nodes()[n];
    const std::vector<Place> bounds = bounds_of(node);
    fill(node, bounds, 0, static_cast<int>(bounds.size()) - 1, ranks);
  }
  /// Ranks for the children [begin, end) of a node.
  void fill(const DeviceTree::Node& node, const std::vector<Place>& bounds, int begin, int end,
            const std::vector<Rank>& ranks) {
    if (end - begin == 1) {
      if (node.children.empty())
        places_[ranks.front()] = bounds[begin];
      else
        fill_node(node.children[begin], ranks);
      return;
    }
    const int middle = begin + (end - begin + 1) / 2;
    const Side side = bisect(graph_of(ranks, problem_.tree.link(node.begin, node.end - 1)),
                             bounds[middle] - bounds[begin]);
    std::vector<Rank> left, right;
    for (size_t i = 0; i < ranks.size(); ++i) (side[i] ? left : right).push_back(ranks[i]);
    fill(node, bounds, begin, middle, left);
    fill(node, bounds, middle, end, right);
  }
  /// The traffic between some ranks. Ranks above those of the problem are free places.
  Graph graph_of(const std::vector<Rank>& ranks, const LinkPrice& link) {
    for (size_t i = 0; i < ranks.size(); ++i) index_[ranks[i]] = static_cast<int>(i);
    GraphBuilder builder(static_cast<int>(ranks.size()));
    for (Rank rank : ranks) {
      if (rank < problem_.graph.size())
        for (const RankEdge& edge : problem_.graph.edges(rank))
          if (index_[edge.to] >= 0) builder.add_edge(index_[edge.to], edge_price(edge, link));
      builder.end_vertex(1);
    }
    for (Rank rank : ranks) index_[rank] = -1;
    return builder.take();
  }

  const MappingProblem& problem_;
  Places places_;
  std::vector<int> index_;
};

/// Maps the ranks that `start` has on places of one type to places of this type.
void map_type(const MappingProblem& problem, const Places& start, int type, Places& places) {
  std::vector<bool> kept(problem.tree.size());
  std::vector<Place> place_of;  // by place of the part
  for (Place p = 0; p < problem.tree.size(); ++p) {
    kept[p] = problem.tree.type(p) == type;
    if (kept[p]) place_of.push_back(p);
  }
  std::vector<Rank> rank_of;  // by rank of the part
  std::vector<int> part(start.size(), -1);
  for (Rank rank = 0; rank < problem.graph.size(); ++rank)
    if (kept[start[rank]]) {
      part[rank] = static_cast<int>(rank_of.size());
      rank_of.push_back(rank);
    }
  if (rank_of.empty()) return;
  const MappingProblem own{problem.graph.contract(part, static_cast<int>(rank_of.size())),
                           problem.tree.keep(kept),
                           {},
                           {}};
  const Places mapped = Bisection(own).run();
  for (size_t i = 0; i < rank_of.size(); ++i) places[rank_of[i]] = place_of[mapped[i]];
}

}  // namespace

Places map_by_bisection(const MappingProblem& problem, const Places& start) {
  if (fit_everywhere(problem)) return Bisection(problem).run();
  Places places = start;
  for (size_t type = 0; type < problem.fits.front().size(); ++type)
    map_type(problem, start, static_cast<int>(type), places);
  return places;
}

}  // namespace tessera
