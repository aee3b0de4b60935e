// The working form of a problem. Reductions make it smaller step by step, each with a record of how
// to undo it.
#pragma once

#include <memory>
#include <vector>

#include "base/solver/problem.h"

namespace tessera::solver {

/// A forbidden cost inside the solver. Two of them still fit 64 bits. Finite costs of all nodes and
/// edges together stay below it.
constexpr Cost kInfinite = Cost{1} << 61;

/// The sum of costs that are not negative. An infinite cost stays infinite.
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

/// The same assignment problem over fewer nodes. Moments are numbered. Usages are the amounts by
/// which a strategy exceeds the least usage of its node at a moment.
struct Network {
  /// The usage of each strategy of a node during the moments begin, ..., end - 1.
  struct Holding {
    int32_t begin = 0, end = 0;
    std::vector<Usage> usages;
  };
  struct Node {
    std::vector<Cost> costs;    // not negative, finite
    std::vector<int32_t> tags;  // ascending: the original numbers of the strategies
    /// Once settled they are disjoint, ascending and not empty; the least usage of each is 0 and
    /// the largest is not.
    std::vector<Holding> holdings;
    std::vector<int32_t> edges;
    bool is_settled = false;
    bool is_alive = true;

    int32_t strategies() const { return count_of(costs); }
  };
  enum EdgeLook : uint8_t { kSeparable = 1, kSupport = 2, kDeterminedByA = 4, kDeterminedByB = 8 };
  struct Edge {
    int32_t a = 0, b = 0;
    /// Rows are strategies of a. Equal edges of the problem share one matrix.
    std::shared_ptr<const Matrix> costs;
    bool is_alive = true;
    uint8_t found_nothing = 0;  // EdgeLook bits: the checks of these very costs that found nothing

    int32_t other(int32_t node) const { return node == a ? b : a; }
  };
  /// The rule by which a removed node takes its strategy from those of at most two remaining nodes:
  /// choice[row of a][row of b].
  struct Record {
    int32_t node = 0;
    int32_t a = -1, b = -1;  // -1: does not depend on it
    std::vector<int32_t> tags_a, tags_b;
    std::vector<int32_t> choice;  // tags of node
  };

  /// The nodes of the problem, then one for each edge that holds memory of its own.
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  /// By moment: the limit that is left for usages above the least, before `taken` is subtracted.
  std::vector<Usage> limits;
  /// By moment: the decrease of the limit from the previous moment to this one that is noted.
  std::vector<Usage> taken;
  /// By moment: the first of the problem's moments that it represents.
  std::vector<Moment> first_time;
  Wide constant = 0;  // cost of the decisions so far
  std::vector<Record> records;
  bool is_infeasible = false;  // has it been proved?

  ///   requires  the largest costs of the problem that are not forbidden sum to less than kInfinite
  explicit Network(const Problem& problem);

  /// The cost of strategies s of `from` and t of the other node.
  Cost at(const Edge& edge, int32_t from, int32_t s, int32_t t) const {
    return edge.a == from ? edge.costs->at(s, t) : edge.costs->at(t, s);
  }
  /// A strategy of each node of the problem, from tags of the nodes that are alive.
  ///   requires  tags[i] is one of the tags of node i, for each live node i
  Assignment expand(Assignment tags, int32_t problem_nodes) const;
};

/// Sorts the holdings of a node and subtracts the least of each, which is noted in `taken`.
/// Holdings of zeros are then removed. Steps that change holdings or strategies leave them
/// unsettled, so that a node that many others join is settled once.
void settle_holdings(Network& network, Network::Node& node);

/// Subtracts the noted amounts from the limits, removes moments that cannot bind and those that
/// another moment implies, and forbids strategies that alone exceed a limit.
///   returns  the nodes whose holdings or strategies changed
std::vector<int32_t> compress_moments(Network& network);

/// Keeps only the strategies with keep[s], in the node, its holdings and its edges.
void keep_strategies(Network& network, int32_t node, const std::vector<char>& keep);

}  // namespace tessera::solver
