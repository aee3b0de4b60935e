// The rest of a network after reductions, packed for search. It does not change, and data that is
// read together is stored together.
#pragma once

#include <span>
#include <vector>

#include "base/solver/internal/network.h"

namespace tessera::solver {

/// Costs inside of searches are whole numbers that are exact in a double (Core ensures this), or at
/// least kNever.
constexpr double kNever = 1e18;

struct Core {
  struct Piece {
    int32_t begin = 0, end = 0;  // moments
    size_t usages = 0;           // index of the usages of the node's strategies
  };
  struct Edge {
    int32_t a = 0, b = 0;
    /// Indices of the costs, by strategy of a and by strategy of b.
    size_t rows_of_a = 0, rows_of_b = 0;
  };
  /// An edge in the view of one of its ends.
  struct Neighbour {
    int32_t node = 0;
    int32_t edge = 0;
    size_t my_rows = 0;     // costs[my_rows + s * strategies(node) + t]
    size_t their_rows = 0;  // costs[their_rows + t * strategies of mine + s]
  };

  explicit Core(const Network& network);

  int32_t nodes() const { return count_of(network_node); }
  int32_t moments() const { return count_of(limits); }
  int32_t strategies(int32_t node) const {
    return static_cast<int32_t>(first[node + 1] - first[node]);
  }
  std::span<const double> costs_of(int32_t node) const {
    return {costs.data() + first[node], first[node + 1] - first[node]};
  }
  std::span<const Neighbour> neighbours(int32_t node) const {
    return {neighbour_list.data() + first_neighbour[node],
            first_neighbour[node + 1] - first_neighbour[node]};
  }
  std::span<const Piece> pieces(int32_t node) const {
    return {piece_list.data() + first_piece[node], first_piece[node + 1] - first_piece[node]};
  }
  const Usage* usages(const Piece& piece) const { return usage_list.data() + piece.usages; }
  const double* row(size_t rows, int32_t row, int32_t columns) const {
    return table.data() + rows + static_cast<size_t>(row) * columns;
  }

  /// Converts strategies of the core's nodes to tags of the network's nodes, and back; kNoStrategy
  /// where a node has lost the tag.
  Assignment tags(const Network& network, const Assignment& assignment) const;
  Assignment from_tags(const Network& network, const Assignment& tags) const;

  std::vector<int32_t> network_node;
  std::vector<size_t> first;  // by node: index of its first strategy; one more at the end
  std::vector<double> costs;  // by strategy
  std::vector<Edge> edges;
  std::vector<double> table;
  int64_t pairs = 0;  // of strategies, over all edges; the table is smaller where edges are equal
  std::vector<size_t> first_neighbour, first_piece;
  std::vector<Neighbour> neighbour_list;
  std::vector<Piece> piece_list;
  std::vector<Usage> usage_list;
  std::vector<Usage> limits;
  std::vector<Moment> first_time;
  double constant = 0;
};

/// The work of one sweep of messages, in entries of tables, which eliminations count. A sweep takes
/// a fifth of the time of an elimination per entry.
inline int64_t work_of_sweep(const Core& core) {
  return (2 * core.pairs + core.moments()) / 5 + core.nodes() + 1000;
}

/// The cost of an assignment of the core, including its constant; at least kNever when it uses a
/// forbidden pair.
double cost_of(const Core& core, const Assignment& assignment);

}  // namespace tessera::solver
