// For tests: random problems of all shapes, and the least cost by enumeration.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include "base/solver/contest_file.h"
#include "base/solver/problem.h"

namespace tessera::solver {

/// Samples whole numbers, the same on every machine.
class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  /// low, ..., high
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool one_in(int64_t count) { return (*this)(1, count) == 1; }

 private:
  std::mt19937_64 engine_;
};

/// Leaves the usage without a limit, or limits it to `sum`, or to about the usage of `hidden`, or,
/// without a hidden assignment, to a part of `sum`.
inline void set_random_limit(Problem& problem, Draw& draw, const Assignment* hidden, Usage sum) {
  const Usage needed = hidden ? static_cast<Usage>(evaluate(problem, *hidden).peak) : 0;
  switch (draw(0, 4)) {
    case 0: break;
    case 1: problem.set_usage_limit(sum); break;
    default:
      problem.set_usage_limit(hidden ? needed + draw(0, needed / 10 + 1) : draw(sum / 10, sum / 2));
      break;
  }
}

/// A tree, a grid or a random graph of `least` to `most` nodes. It has costs of few or many values,
/// forbidden pairs, equal pairs, edges that hold memory, and a limit that is absent, loose, binding
/// or too small for any assignment. Three of four problems have a hidden assignment that is
/// feasible; the others may have none.
inline Problem random_problem(uint64_t seed, int32_t smallest, int32_t maximum,
                              int32_t max_strategies) {
  Draw draw(seed);
  Problem problem;
  const auto nodes = static_cast<int32_t>(draw(smallest, maximum));
  const int64_t largest_cost = draw.one_in(3) ? 3 : 1000;
  const int64_t end = draw(1, 20);
  const auto interval = [&] {
    const int64_t begin = draw(0, end);
    return Interval{begin, draw(0, 3) == 0 ? begin : draw(begin, end)};
  };
  const auto numbers = [&](int64_t count, int64_t largest) {
    std::vector<int64_t> list(count);
    for (int64_t& number : list) number = draw(0, largest);
    return list;
  };
  const bool has_hidden = !draw.one_in(4);
  Assignment hidden;
  Usage sum = 0;
  for (int32_t i = 0; i < nodes; ++i) {
    const int64_t strategies = draw(1, max_strategies);
    std::vector<Cost> costs = numbers(strategies, largest_cost);
    if (draw.one_in(10)) costs[draw(0, strategies - 1)] = kForbidden;
    hidden.push_back(static_cast<int32_t>(draw(0, strategies - 1)));
    if (has_hidden) costs[hidden.back()] = std::min(costs[hidden.back()], largest_cost);
    const std::vector<Usage> usages = numbers(strategies, 100);
    sum += *std::max_element(usages.begin(), usages.end());
    problem.add_node(interval(), costs, usages);
  }
  const auto connect = [&](int32_t a, int32_t b) {
    const int32_t rows = problem.strategies(a), columns = problem.strategies(b);
    std::vector<Cost> costs = numbers(int64_t{rows} * columns, largest_cost);
    if (draw.one_in(4) && rows == columns) {
      // The same strategy on both sides is required, and all other pairs are forbidden.
      for (int32_t pair = 0; pair < rows * columns; ++pair)
        costs[pair] = pair / columns == pair % columns ? 0 : kForbidden;
    } else if (draw.one_in(4)) {
      for (int32_t pair = 0; pair < rows * columns; ++pair)
        costs[pair] = (pair / columns) * 3 + (pair % columns) * 2;  // decomposes
    }
    if (draw.one_in(3)) costs[draw(0, int64_t{rows} * columns - 1)] = kForbidden;
    Cost& of_hidden = costs[int64_t{hidden[a]} * columns + hidden[b]];
    if (has_hidden) of_hidden = std::min(of_hidden, largest_cost);
    if (draw.one_in(6))
      problem.add_edge(a, b, costs, interval(), numbers(int64_t{rows} * columns, 60));
    else
      problem.add_edge(a, b, costs);
  };
  const int64_t shape = draw(0, 2);
  const auto width = static_cast<int32_t>(draw(2, 4));
  for (int32_t i = 1; i < nodes; ++i) {
    if (shape == 0) connect(static_cast<int32_t>(draw(0, i - 1)), i);
    if (shape == 1 && i % width != 0) connect(i - 1, i);
    if (shape == 1 && i >= width) connect(i, i - width);
  }
  for (int64_t e = shape == 2 ? draw(0, 2 * nodes) : draw(0, 1); e > 0; --e)
    connect(static_cast<int32_t>(draw(0, nodes - 1)), static_cast<int32_t>(draw(0, nodes - 1)));
  set_random_limit(problem, draw, has_hidden ? &hidden : nullptr, sum);
  return problem;
}

/// The command that repeats a failure.
inline std::string reproducer(const Problem& problem, uint64_t seed) {
  return fmt::format("seed {}: {}", seed, to_json(problem));
}

/// The least cost of a feasible assignment, by enumeration of all assignments except those that
/// begin with forbidden or more expensive choices; absent when none is feasible.
inline std::optional<Wide> min_cost_by_trying(const Problem& problem) {
  std::vector<std::vector<int32_t>> edges_until(problem.nodes());
  for (int32_t e = 0; e < problem.edges(); ++e)
    edges_until[std::max(problem.edge(e).a, problem.edge(e).b)].push_back(e);
  std::optional<Wide> smallest;
  Assignment assignment(problem.nodes(), 0);
  const std::function<void(int32_t, Wide)> choose = [&](int32_t i, Wide cost) {
    if (smallest && cost >= *smallest) return;
    if (i == problem.nodes()) {
      if (evaluate(problem, assignment).feasible()) smallest = cost;
      return;
    }
    for (int32_t s = 0; s < problem.strategies(i); ++s) {
      assignment[i] = s;
      Cost worst = problem.costs(problem.node(i))[s];
      Wide with = cost + worst;
      for (const int32_t e : edges_until[i]) {
        const Problem::Edge& edge = problem.edge(e);
        const Cost of_edge = problem.costs(
            edge)[int64_t{assignment[edge.a]} * problem.strategies(edge.b) + assignment[edge.b]];
        worst = std::max(worst, of_edge);
        with += of_edge;
      }
      if (worst < kForbidden) choose(i + 1, with);
    }
  };
  choose(0, 0);
  return smallest;
}

/// The text of a cost that may be absent.
inline std::string text_of(const std::optional<Wide>& cost) {
  return cost ? to_text(*cost) : "none";
}

}  // namespace tessera::solver
