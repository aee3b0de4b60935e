#include "compiler/rewrite/internal/recompute_pareto_front.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/solver/solve.h"

namespace tessera {
namespace {

using solver::Assignment;
using solver::Cost;
using solver::Usage;

/// The sums that the dynamic program makes before it counts the block as wide.
constexpr int64_t kMaxSums = 2'000'000;
/// Of one problem of the solver, in millions of entries of tables.
constexpr int64_t kWork = 1;

/// Those that no other one is below, by ascending bytes. Of points whose costs differ by less than
/// a part `error`, the one of the fewest bytes.
template <class Point>
std::vector<Point> front_of(std::vector<Point> points, double error) {
  std::ranges::sort(points, [](const Point& a, const Point& b) {
    return std::pair(a.bytes, a.cost) < std::pair(b.bytes, b.cost);
  });
  std::vector<Point> front;
  for (Point& point : points)
    if (front.empty() || (point.cost < front.back().cost &&
                          (point.cost == 0 || solver::to_double(point.cost) * (1 + error) <
                                                  solver::to_double(front.back().cost))))
      front.push_back(std::move(point));
  return front;
}

/// The dynamic program over the nodes in order.
class NarrowFront {
 public:
  explicit NarrowFront(const RecomputeBlock& block)
      : block_(block), edges_(block.nodes.size()), last_use_(block.nodes.size(), -1) {
    for (const RecomputeBlock::Edge& edge : block.edges) {
      const int32_t first = std::min(edge.a, edge.b), later = std::max(edge.a, edge.b);
      edges_[later].push_back(&edge);
      last_use_[first] = std::max(last_use_[first], later);
    }
  }

  /// nullopt when the block is wide.
  std::optional<std::vector<RecomputePoint>> front() {
    states_ = {{{}, {Sum{}}}};
    for (int32_t node = 0; node < std::ssize(block_.nodes); ++node)
      if (!add(node)) return std::nullopt;
    std::vector<RecomputePoint> points;
    for (const Sum& sum : states_.begin()->second) points.push_back(point_of(sum));
    return points;
  }

 private:
  /// A choice for the nodes so far; `made` is the step that made it last.
  struct Sum {
    Usage bytes = 0;
    Cost cost = 0;
    int32_t made = -1;
  };
  struct Step {
    int32_t before = -1;
    int32_t strategy = 0;
  };
  /// The strategies of the nodes that later ones have edges with, in order.
  using Key = std::vector<int32_t>;

  static bool forbids(const RecomputeBlock::Edge& edge, int32_t first, int32_t later,
                      int32_t columns) {
    const auto [s, t] = edge.a < edge.b ? std::pair(first, later) : std::pair(later, first);
    return edge.costs[s * columns + t] >= solver::kForbidden;
  }
  int32_t columns(const RecomputeBlock::Edge& edge) const {
    return static_cast<int32_t>(block_.nodes[edge.b].costs.size());
  }

  /// The first strategy that allows the same of all later nodes as `strategy` does.
  int32_t representative(int32_t node, int32_t strategy) const {
    for (int32_t s = 0; s < strategy; ++s) {
      const bool is_alike = std::ranges::all_of(block_.edges, [&](const auto& edge) {
        if (std::min(edge.a, edge.b) != node) return true;
        const int32_t later = std::max(edge.a, edge.b);
        for (int32_t t = 0; t < std::ssize(block_.nodes[later].costs); ++t)
          if (forbids(edge, s, t, columns(edge)) != forbids(edge, strategy, t, columns(edge)))
            return false;
        return true;
      });
      if (is_alike) return s;
    }
    return strategy;
  }

  bool is_allowed(int32_t node, int32_t strategy, const Key& key) const {
    return std::ranges::all_of(edges_[node], [&](const RecomputeBlock::Edge* edge) {
      const int32_t other = std::min(edge->a, edge->b);
      const auto place = std::ranges::find(open_, other) - open_.begin();
      return !forbids(*edge, key[place], strategy, columns(*edge));
    });
  }

  /// Extends all states by the strategies of `node`.
  bool add(int32_t node) {
    const RecomputeBlock::Node& made = block_.nodes[node];
    std::vector<int32_t> alike;
    for (int32_t s = 0; s < std::ssize(made.costs); ++s) alike.push_back(representative(node, s));
    std::map<Key, std::vector<Sum>> next;
    for (const auto& [key, sums] : states_)
      for (int32_t s = 0; s < std::ssize(made.costs); ++s) {
        if (made.costs[s] >= solver::kForbidden || !is_allowed(node, s, key)) continue;
        Key then;
        for (size_t i = 0; i < open_.size(); ++i)
          if (last_use_[open_[i]] > node) then.push_back(key[i]);
        if (last_use_[node] > node) then.push_back(alike[s]);
        std::vector<Sum>& list = next[std::move(then)];
        for (const Sum& sum : sums) {
          list.push_back({sum.bytes + made.usages[s], sum.cost + made.costs[s],
                          static_cast<int32_t>(steps_.size())});
          steps_.push_back({sum.made, s});
          if (std::ssize(steps_) > kMaxSums) return false;
        }
      }
    std::erase_if(open_, [&](int32_t open) { return last_use_[open] <= node; });
    if (last_use_[node] > node) open_.push_back(node);
    const double error = kFrontError / static_cast<double>(block_.nodes.size());
    for (auto& [key, sums] : next) sums = front_of(std::move(sums), error);
    states_ = std::move(next);
    return true;
  }

  RecomputePoint point_of(const Sum& sum) const {
    RecomputePoint point{sum.bytes, sum.cost, Assignment(block_.nodes.size())};
    int32_t step = sum.made;
    for (auto node = std::ssize(block_.nodes) - 1; node >= 0; --node, step = steps_[step].before)
      point.assignment[node] = steps_[step].strategy;
    return point;
  }

  const RecomputeBlock& block_;
  std::vector<std::vector<const RecomputeBlock::Edge*>> edges_;  // by their later node
  std::vector<int32_t> last_use_;  // by node: the last one that it has an edge with; -1: none
  std::vector<int32_t> open_;      // nodes of the keys
  std::map<Key, std::vector<Sum>> states_;
  std::vector<Step> steps_;
};

/// Points by the solver.
class WideFront {
 public:
  explicit WideFront(const RecomputeBlock& block) : block_(block) {}

  std::vector<RecomputePoint> front() const {
    const RecomputePoint keeps = keeping(), smallest = fewest_bytes(keeps);
    std::vector<RecomputePoint> points{under(smallest.bytes, smallest), keeps};
    std::vector<Gap> gaps{{0, 1, points[0].bytes}};
    const auto area = [&](const Gap& gap) {
      return solver::to_double(points[gap.high].bytes - gap.limit) *
             solver::to_double(points[gap.low].cost - points[gap.high].cost);
    };
    for (int i = 0; i < kFrontSolves; ++i) {
      const auto widest = std::ranges::max_element(gaps, {}, area);
      const Gap gap = *widest;
      const Usage middle = gap.limit + (points[gap.high].bytes - gap.limit) / 2;
      if (area(gap) <= 0 || middle == gap.limit) break;
      RecomputePoint found = under(middle, points[gap.low]);
      if (found.cost == points[gap.low].cost) {
        widest->limit = middle;
        continue;
      }
      points.push_back(std::move(found));
      *widest = {gap.low, points.size() - 1, gap.limit};
      gaps.push_back({points.size() - 1, gap.high, middle});
    }
    return front_of(std::move(points), 0);
  }

 private:
  /// Between two neighbours of a front: `low` is the cheapest up to `limit`.
  struct Gap {
    size_t low = 0, high = 0;
    Usage limit = 0;
  };

  /// Computes nothing again.
  RecomputePoint keeping() const {
    Assignment assignment;
    for (const RecomputeBlock::Node& node : block_.nodes)
      assignment.push_back(node.costs.front() >= solver::kForbidden ? 1 : 0);
    return point_of(std::move(assignment));
  }

  RecomputePoint fewest_bytes(const RecomputePoint& start) const {
    return point_of(solved(problem_of(&RecomputeBlock::Node::usages), start.assignment));
  }

  /// The cheapest that keeps at most `limit`; `start` does.
  RecomputePoint under(Usage limit, const RecomputePoint& start) const {
    solver::Problem problem = problem_of(&RecomputeBlock::Node::costs);
    problem.set_usage_limit(limit);
    RecomputePoint found = point_of(solved(problem, start.assignment));
    return found.cost < start.cost ? found : start;
  }

  static Assignment solved(const solver::Problem& problem, const Assignment& start) {
    solver::SolveOptions options;
    options.work = kWork;
    options.threads = 1;
    options.start = start;
    return solver::solve(problem, options).assignment.value_or(start);
  }

  /// With the costs or the usages of the nodes as costs.
  solver::Problem problem_of(std::vector<int64_t> RecomputeBlock::Node::* objective) const {
    solver::Problem problem;
    for (const RecomputeBlock::Node& node : block_.nodes) {
      std::vector<Cost> costs = node.*objective;
      for (size_t s = 0; s < costs.size(); ++s)
        if (node.costs[s] >= solver::kForbidden) costs[s] = solver::kForbidden;
      problem.add_node({0, 1}, costs, node.usages);
    }
    for (const RecomputeBlock::Edge& edge : block_.edges)
      problem.add_edge(edge.a, edge.b, edge.costs);
    return problem;
  }

  RecomputePoint point_of(Assignment assignment) const {
    RecomputePoint point{0, 0, std::move(assignment)};
    for (size_t i = 0; i < point.assignment.size(); ++i) {
      point.bytes += block_.nodes[i].usages[point.assignment[i]];
      point.cost += block_.nodes[i].costs[point.assignment[i]];
    }
    return point;
  }

  const RecomputeBlock& block_;
};

}  // namespace

std::vector<RecomputePoint> recompute_pareto_front(const RecomputeBlock& block, bool solves_wide) {
  if (block.nodes.empty()) return {RecomputePoint{}};
  if (auto front = NarrowFront(block).front()) return *std::move(front);
  if (!solves_wide) return {};
  return WideFront(block).front();
}

}  // namespace tessera
