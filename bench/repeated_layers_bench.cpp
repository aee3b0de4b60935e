// The solver on a model of a million nodes: a layer of a thousand nodes, a thousand times. Prints
// the time of the first feasible answer and the memory of the program.
//
//   ./dev bench repeated_layers [SECONDS [LAYERS]]     20 seconds, 1000 layers
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "base/solver/solve.h"

namespace tessera::solver {
namespace {

constexpr int32_t kNodesOfLayer = 1000;
constexpr int64_t kLargestUsage = 1000;

/// One layer. Strategies that hold less cost more; an edge has a cost unless both ends take the
/// same strategy, and some pairs are forbidden.
class Layer {
 public:
  Layer() {
    for (int32_t i = 0; i < kNodesOfLayer; ++i) {
      nodes_.push_back(make_node());
      if (i == 0) continue;
      add_edge(i - 1, i);
      if (draw(0, 3) == 0) add_edge(static_cast<int32_t>(draw(std::max(0, i - 30), i - 1)), i);
    }
    to_next_ = matrix(kNodesOfLayer - 1, 0);
  }

  /// Adds the layer to `problem` at `moment`. A fifth of its nodes stays live to the end, as
  /// weights do.
  void add_to(Problem& problem, int32_t number, int32_t layers) const {
    const int32_t first = problem.nodes();
    const Moment start = Moment{number} * kNodesOfLayer, end = Moment{layers} * kNodesOfLayer;
    for (int32_t i = 0; i < kNodesOfLayer; ++i) {
      const Node& node = nodes_[i];
      const Interval interval =
          i % 5 == 0 ? Interval{0, end} : Interval{start + i, start + i + node.life};
      problem.add_node(interval, node.costs, node.usages);
    }
    for (const Edge& edge : edges_) problem.add_edge(first + edge.a, first + edge.b, edge.costs);
    if (number > 0) problem.add_edge(first - 1, first, to_next_);
  }

  /// The memory of its weights when all use the minimum, and the maximum.
  std::pair<Usage, Usage> usages_of_weights() const {
    Usage smallest = 0, largest = 0;
    for (size_t i = 0; i < nodes_.size(); i += 5) {
      smallest += nodes_[i].usages.back();
      largest += nodes_[i].usages.front();
    }
    return {smallest, largest};
  }

 private:
  struct Node {
    std::vector<Cost> costs;
    std::vector<Usage> usages;
    Moment life = 1;
  };
  struct Edge {
    int32_t a = 0, b = 0;
    std::vector<Cost> costs;
  };

  int64_t draw(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }

  Node make_node() {
    Node node;
    const int64_t strategies = draw(2, 8);
    for (int64_t s = 0; s < strategies; ++s) {
      node.costs.push_back(draw(0, 50) + 40 * s);
      node.usages.push_back(kLargestUsage / (s + 1));
    }
    node.life = draw(1, 100);
    return node;
  }

  std::vector<Cost> matrix(int32_t a, int32_t b) {
    std::vector<Cost> costs;
    const size_t rows = nodes_[a].costs.size(), columns = nodes_[b].costs.size();
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j)
        costs.push_back(i == j ? 0 : draw(0, 9) == 0 && i > 0 && j > 0 ? kForbidden : draw(1, 100));
    return costs;
  }

  void add_edge(int32_t a, int32_t b) { edges_.push_back({a, b, matrix(a, b)}); }

  std::mt19937_64 engine_{1};
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<Cost> to_next_;
};

int main_of(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 20;
  const int32_t layers = argc > 2 ? std::atoi(argv[2]) : 1000;
  const Layer layer;
  Problem problem;
  for (int32_t number = 0; number < layers; ++number) layer.add_to(problem, number, layers);
  const auto [smallest, largest] = layer.usages_of_weights();
  problem.set_usage_limit(layers * (smallest + (largest - smallest) / 3) + 100 * kLargestUsage);
  SolveOptions options;
  options.time_limit = Seconds(seconds);
  double first = 0;
  options.on_improvement = [&](const Improvement& improvement) {
    if (improvement.cost && first == 0) first = improvement.at.value();
  };
  const Answer answer = solve(problem, options);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::puts(
      fmt::format("{} nodes, {} edges: first answer after {:.1f} s, cost {}, bound {}, {:.2f} GiB",
                  problem.nodes(), problem.edges(), first,
                  answer.cost ? to_text(*answer.cost) : "none",
                  answer.bound ? to_text(*answer.bound) : "none",
                  static_cast<double>(usage.ru_maxrss) / (1 << 20))
          .c_str());
  return answer.cost ? 0 : 1;
}

}  // namespace
}  // namespace tessera::solver

int main(int argc, char** argv) {
  return tessera::solver::main_of(argc, argv);
}
