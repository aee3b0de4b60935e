#include "task_graph/actors/internal/marked_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

/// The edges out of each vertex: those of v are edges[first[v]] to edges[first[v + 1]].
struct OutEdges {
  std::vector<size_t> first;
  std::vector<size_t> edges;  // indices in MarkedGraph::edges

  explicit OutEdges(const MarkedGraph& graph)
      : first(graph.vertices + 1, 0), edges(graph.edges.size()) {
    for (const MarkedEdge& edge : graph.edges) ++first[edge.from + 1];
    for (size_t v = 1; v < first.size(); ++v) first[v] += first[v - 1];
    std::vector<size_t> next = first;
    for (size_t e = 0; e < graph.edges.size(); ++e) edges[next[graph.edges[e].from]++] = e;
  }
};

/// Policy iteration. Every vertex follows one of its edges, so that each walk ends in a cycle.
/// Vertices change to edges that lead to slower cycles, or to the same cycle on a longer path,
/// until no vertex changes.
class PolicyIteration {
 public:
  PolicyIteration(const MarkedGraph& graph, std::span<const double> times)
      : graph_(graph), times_(times) {
    const size_t count = graph.vertices;
    policy_.assign(count, kNone);
    period_.assign(count, -1);
    length_.assign(count, 0);
    drop_dead_ends();
    double total = 0;
    for (double time : times) total += time;
    tolerance_ = total * 1e-12;
  }

  SlowestCycle run() {
    do evaluate();
    while (improve());
    return slowest();
  }

 private:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  const MarkedEdge& edge(size_t index) const { return graph_.edges[index]; }
  size_t next_of(size_t v) const { return edge(policy_[v]).to; }

  /// Drops the vertices that reach no cycle. Each other vertex follows its first edge to a
  /// remaining vertex.
  void drop_dead_ends() {
    const OutEdges out(graph_);
    std::vector<size_t> degree(policy_.size(), 0);  // edges to remaining vertices
    std::vector<std::vector<size_t>> in(policy_.size());
    for (size_t e = 0; e < graph_.edges.size(); ++e) {
      ++degree[edge(e).from];
      in[edge(e).to].push_back(edge(e).from);
    }
    std::vector<size_t> ended;
    for (size_t v = 0; v < degree.size(); ++v)
      if (degree[v] == 0) ended.push_back(v);
    for (size_t i = 0; i < ended.size(); ++i)
      for (size_t before : in[ended[i]])
        if (--degree[before] == 0) ended.push_back(before);
    for (size_t e = 0; e < graph_.edges.size(); ++e) {
      const size_t from = edge(e).from;
      if (degree[from] == 0 || degree[edge(e).to] == 0) continue;
      live_.push_back(e);
      if (policy_[from] == kNone) policy_[from] = e;
    }
  }

  /// Finds the period of the cycle in which each vertex's walk ends, and the relative time to it.
  void evaluate() {
    std::vector<int> walk_of(policy_.size(), -1);
    std::vector<bool> is_known(policy_.size(), false);
    for (int start = 0; start < std::ssize(policy_); ++start) {
      if (policy_[start] == kNone) continue;
      std::vector<size_t> walk;
      size_t v = start;
      for (; walk_of[v] == -1; v = next_of(v)) {
        walk_of[v] = start;
        walk.push_back(v);
      }
      if (!is_known[v]) {  // the walk has returned to itself: a new cycle
        period_[v] = period_of_cycle(v);
        length_[v] = 0;
        is_known[v] = true;
      }
      for (auto at = walk.rbegin(); at != walk.rend(); ++at) {
        if (is_known[*at]) continue;
        follow(*at);
        is_known[*at] = true;
      }
    }
  }

  double period_of_cycle(size_t root) const {
    double time = 0, tokens = 0;
    size_t v = root;
    do {
      time += times_[v];
      tokens += edge(policy_[v]).tokens;
      v = next_of(v);
    } while (v != root);
    ensure(tokens > 0, "every cycle of a marked graph that runs has a token");
    return time / tokens;
  }

  void follow(size_t v) {
    period_[v] = period_[next_of(v)];
    length_[v] = length_over(policy_[v]);
  }
  double length_over(size_t e) const {
    const size_t to = edge(e).to;
    return times_[edge(e).from] - period_[to] * edge(e).tokens + length_[to];
  }

  bool improve() {
    bool changed = false;
    for (size_t e : live_) {
      const size_t from = edge(e).from, to = edge(e).to;
      if (period_[to] <= period_[from] + tolerance_ ||
          period_[to] <= period_[next_of(from)] + tolerance_)
        continue;
      policy_[from] = e;
      changed = true;
    }
    if (changed) return true;
    for (size_t e : live_) {
      const size_t from = edge(e).from, to = edge(e).to;
      if (std::abs(period_[to] - period_[from]) > tolerance_) continue;
      if (length_over(e) <= std::max(length_[from], length_over(policy_[from])) + tolerance_)
        continue;
      policy_[from] = e;
      changed = true;
    }
    return changed;
  }

  SlowestCycle slowest() const {
    SlowestCycle found;
    const auto best = std::max_element(period_.begin(), period_.end());
    if (best == period_.end() || *best < 0) return found;
    found.period = *best;
    size_t v = best - period_.begin();
    for (size_t steps = 0; steps < policy_.size(); ++steps)
      v = next_of(v);  // now surely on the cycle
    const size_t root = v;
    do {
      found.edges.push_back(edge(policy_[v]));
      v = next_of(v);
    } while (v != root);
    return found;
  }

  const MarkedGraph& graph_;
  std::span<const double> times_;
  std::vector<size_t> live_;    // edges on a path to a cycle
  std::vector<size_t> policy_;  // by vertex: the edge that it follows, or kNone
  std::vector<double> period_;  // by vertex: of the cycle that it reaches
  std::vector<double> length_;  // by vertex: relative time to a vertex of that cycle
  double tolerance_ = 0;
};

}  // namespace

std::vector<MarkedEdge> find_stuck_cycle(const MarkedGraph& graph) {
  MarkedGraph bare{graph.vertices, {}};
  std::copy_if(graph.edges.begin(), graph.edges.end(), std::back_inserter(bare.edges),
               [](const MarkedEdge& edge) { return edge.tokens == 0; });
  const OutEdges out(bare);
  enum class State : uint8_t { kNew, kOpen, kDone };
  std::vector<State> state(bare.vertices, State::kNew);
  std::vector<size_t> next = out.first;  // by vertex: the edge to look at
  std::vector<size_t> path;              // edges from the root of the search to where it is
  for (size_t root = 0; root < state.size(); ++root) {
    if (state[root] != State::kNew) continue;
    size_t v = root;
    state[v] = State::kOpen;
    for (;;) {
      if (next[v] == out.first[v + 1]) {
        state[v] = State::kDone;
        if (path.empty()) break;
        v = bare.edges[path.back()].from;
        path.pop_back();
        continue;
      }
      const size_t e = out.edges[next[v]++];
      const int to = bare.edges[e].to;
      if (state[to] == State::kDone) continue;
      path.push_back(e);
      if (state[to] == State::kOpen) {
        std::vector<MarkedEdge> cycle;
        const auto first = std::find_if(path.begin(), path.end(),
                                        [&](size_t at) { return bare.edges[at].from == to; });
        for (auto at = first; at != path.end(); ++at) cycle.push_back(bare.edges[*at]);
        return cycle;
      }
      state[to] = State::kOpen;
      v = to;
    }
  }
  return {};
}

SlowestCycle find_slowest_cycle(const MarkedGraph& graph, std::span<const double> times) {
  ensure(std::ssize(times) == graph.vertices, "every act has a time");
  return PolicyIteration(graph, times).run();
}

}  // namespace tessera
