// The intra-operator problem as plain data: the strategy of each node, with its cost and its memory
// over time.
//
// This module knows numbers only: no graph, no op, no mesh. The caller knows the meaning of a
// problem.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tessera::solver {

using Cost = int64_t;
using Usage = int64_t;
using Moment = int64_t;
/// For sums over all nodes and edges: a forbidden entry alone uses a sixteenth of the range of 64
/// bits.
__extension__ typedef __int128 Wide;

/// Costs of at least this are forbidden, as in the contest's format. An assignment without them
/// costs less than this per entry.
constexpr Cost kForbidden = 1'000'000'000'000'000'000;

/// The number as a double. It is exact for costs and usages below 2^53, which Core ensures.
inline double to_double(int64_t number) {
  return static_cast<double>(number);
}
inline double to_double(Wide number) {
  return static_cast<double>(number);
}

/// The number of elements of a table. A problem has fewer than 2^31 of anything.
template <typename Table>
int32_t count_of(const Table& table) {
  return static_cast<int32_t>(table.size());
}

/// The index of the first least element.
template <typename Table>
int32_t index_of_min(const Table& table) {
  return static_cast<int32_t>(std::min_element(table.begin(), table.end()) - table.begin());
}

/// The decimal digits of a number of any size and sign.
std::string to_text(Wide number);

/// The moments begin, ..., end - 1. An empty interval holds nothing.
struct Interval {
  Moment begin = 0;
  Moment end = 0;

  bool is_empty() const { return begin >= end; }
  bool operator==(const Interval&) const = default;
};

/// One strategy per node; kNoStrategy where none is chosen yet.
using Assignment = std::vector<int32_t>;
constexpr int32_t kNoStrategy = -1;

/// Choose one strategy per node so that the costs of nodes and edges have the least sum, and at
/// every moment the usages of all live nodes and edges sum to at most the limit.
///
/// Equal rows of numbers are stored once: a problem that repeats a layer a thousand times takes
/// little more memory than the layer.
class Problem {
 public:
  struct Node {
    Interval interval;
    int32_t strategies = 0;
    uint32_t costs = 0, usages = 0;  // rows of the pool
  };
  /// The cost of each pair of strategies of a and b, those of b varying fastest; also its usage,
  /// when it holds memory of its own.
  struct Edge {
    static constexpr uint32_t kNothing = std::numeric_limits<uint32_t>::max();
    int32_t a = 0, b = 0;
    uint32_t costs = 0;
    uint32_t usages = kNothing;
    Interval interval;
  };

  ///   requires  as many usages as costs, at least one; none negative
  ///   returns   the number of the node: 0, 1, ...
  int32_t add_node(Interval interval, std::span<const Cost> costs, std::span<const Usage> usages);
  /// An edge of a node with itself adds its diagonal to the costs of the node.
  ///   requires  two nodes that exist; strategies(a) * strategies(b) costs, and as many usages or
  ///             none
  int32_t add_edge(int32_t a, int32_t b, std::span<const Cost> costs, Interval interval = {},
                   std::span<const Usage> usages = {});
  /// Sets the largest sum of usages at every moment. Without a value there is no limit.
  void set_usage_limit(std::optional<Usage> limit) { usage_limit_ = limit; }

  int32_t nodes() const { return static_cast<int32_t>(nodes_.size()); }
  int32_t edges() const { return static_cast<int32_t>(edges_.size()); }
  const Node& node(int32_t index) const { return nodes_[index]; }
  const Edge& edge(int32_t index) const { return edges_[index]; }
  int32_t strategies(int32_t node) const { return nodes_[node].strategies; }
  std::span<const Cost> costs(const Node& node) const { return row(node.costs); }
  std::span<const Usage> usages(const Node& node) const { return row(node.usages); }
  std::span<const Cost> costs(const Edge& edge) const { return row(edge.costs); }
  /// Empty when the edge holds nothing.
  std::span<const Usage> usages(const Edge& edge) const {
    return edge.usages == Edge::kNothing ? std::span<const Usage>() : row(edge.usages);
  }
  std::optional<Usage> usage_limit() const { return usage_limit_; }

 private:
  std::span<const int64_t> row(uint32_t index) const {
    return {pool_.data() + starts_[index], starts_[index + 1] - starts_[index]};
  }
  uint32_t intern(std::span<const int64_t> numbers);

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::optional<Usage> usage_limit_;
  std::vector<int64_t> pool_;
  std::vector<size_t> starts_{0};
  std::unordered_map<uint64_t, uint32_t> rows_;  // by hash; the first row of each hash stays
};

/// The cost of an assignment, and the moment of its largest usage.
struct Evaluation {
  Wide cost = 0;           // forbidden entries count with their numbers
  bool forbidden = false;  // does it use a forbidden entry?
  Wide peak = 0;           // the largest sum of usages at any moment
  Moment peak_moment = 0;  // the first moment with that sum
  bool within_limit = true;

  bool feasible() const { return !forbidden && within_limit; }
};

///   requires  a strategy of each node
///   time      O(nodes + edges + moments log moments); exact, in 128 bits
Evaluation evaluate(const Problem& problem, const Assignment& assignment);

}  // namespace tessera::solver
