// The working form of a problem, which reductions shrink step by step, each with a record of how to
// undo it.
#pragma once

#include <memory>
#include <vector>

#include "solver/problem.h"

namespace tessera::solver {

/// Forbidden, inside: two of them still fit 64 bits. Finite costs of all nodes and edges together
/// stay below it.
constexpr Cost kInfinite = Cost{1} << 61;

/// The sum of costs that are not negative; infinite stays infinite.
inline Cost plus(Cost a, Cost b) {
  const Cost sum = a + b;
  return sum < kInfinite ? sum : kInfinite;
}

/// Costs of the pairs of strategies of two nodes, row by row.
struct Matrix {
  int32_t rows = 0, columns = 0;
  std::vector<Cost> costs;

  Cost at(int32_t row, int32_t column) const {
    return costs[static_cast<size_t>(row) * columns + column];
  }
  Cost& at(int32_t row, int32_t column) {
    return costs[static_cast<size_t>(row) * columns + column];
  }
};

Matrix transposed(const Matrix& matrix);

/// The same assignment problem over fewer nodes. Moments are numbered; usages are what exceeds the
/// least of a node at a moment.
struct Network {
  /// What each strategy of a node holds during the moments begin, ..., end - 1.
  struct Holding {
    int32_t begin = 0, end = 0;
    std::vector<Usage> usages;
  };
  struct Node {
    std::vector<Cost> costs;        // not negative, finite
    std::vector<int32_t> tags;      // ascending: what the strategies were called when the node came
    std::vector<Holding> holdings;  // once settled: disjoint, ascending, not empty, the least usage
                                    // is 0 and the largest is not
    std::vector<int32_t> edges;
    bool is_settled = false;
    bool is_alive = true;

    int32_t strategies() const { return count_of(costs); }
  };
  enum EdgeLook : uint8_t { kSeparable = 1, kSupport = 2, kDeterminedByA = 4, kDeterminedByB = 8 };
  struct Edge {
    int32_t a = 0, b = 0;
    std::shared_ptr<const Matrix>
        costs;  // rows are strategies of a; equal edges of the problem share one
    bool is_alive = true;
    uint8_t found_nothing = 0;  // which looks at these very costs came to nothing: EdgeLook

    int32_t other(int32_t node) const { return node == a ? b : a; }
  };
  /// How a node that left takes its strategy from those of at most two that stayed: choice[row of
  /// a][row of b].
  struct Record {
    int32_t node = 0;
    int32_t a = -1, b = -1;  // -1: does not depend on it
    std::vector<int32_t> tags_a, tags_b;
    std::vector<int32_t> choice;  // tags of node
  };

  std::vector<Node>
      nodes;  // those of the problem, then one for each edge that holds memory of its own
  std::vector<Edge> edges;
  std::vector<Usage> limits;  // by moment: what is left for usages above the least, but for what
                              // `taken` still says
  std::vector<Usage>
      taken;  // by moment: how much less is left from there on than at the moment before
  std::vector<Moment>
      first_time;     // by moment: the first of the problem's moments that it stands for
  Wide constant = 0;  // cost of what has been decided
  std::vector<Record> records;
  bool is_infeasible = false;  // proved

  /// requires  the costs of the problem that are not forbidden sum to less than kInfinite at their
  /// largest
  explicit Network(const Problem& problem);

  /// The cost of strategies s of `from` and t of the other node.
  Cost at(const Edge& edge, int32_t from, int32_t s, int32_t t) const {
    return edge.a == from ? edge.costs->at(s, t) : edge.costs->at(t, s);
  }
  /// A strategy of each node of the problem, from tags of the nodes that are alive.
  ///   requires  tags[i] for each live node i is one of its tags
  Assignment expand(Assignment tags, int32_t problem_nodes) const;
};

/// Brings the holdings of a node into order and takes the least of each out, noted as taken; those
/// that say nothing then go. Steps that change holdings or strategies leave them unsettled: a node
/// that many others join is put in order once.
void settle_holdings(Network& network, Network::Node& node);

/// Takes what was noted from the limits, drops moments that cannot bind and those that another one
/// implies; forbids strategies that alone exceed a limit.
///   returns  nodes whose holdings or strategies changed
std::vector<int32_t> compress_moments(Network& network);

/// Keeps only the strategies with keep[s]: of the node, of its holdings and of its edges.
void keep_strategies(Network& network, int32_t node, const std::vector<char>& keep);

}  // namespace tessera::solver
