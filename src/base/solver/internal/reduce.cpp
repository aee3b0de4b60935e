#include "base/solver/internal/reduce.h"

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "base/solver/internal/dominance.h"
#include "base/solver/internal/edge_view.h"

namespace tessera::solver {
namespace {

// A table that replaces a node must not be much larger than the tables that it replaces.
constexpr int64_t kLargestTable = int64_t{1} << 20;

using Edge = Network::Edge;
using Node = Network::Node;

void disconnect(Network& network, int32_t e) {
  Edge& edge = network.edges[e];
  edge.is_alive = false;
  edge.costs.reset();
  for (const int32_t end : {edge.a, edge.b}) std::erase(network.nodes[end].edges, e);
}

void connect(Network& network, int32_t a, int32_t b, Matrix costs) {
  const auto e = count_of(network.edges);
  network.edges.push_back({a, b, std::make_shared<Matrix>(std::move(costs))});
  network.nodes[a].edges.push_back(e);
  network.nodes[b].edges.push_back(e);
}

void leave(Network& network, int32_t index) {
  Node& node = network.nodes[index];
  while (!node.edges.empty()) disconnect(network, node.edges.back());
  node = Node{};
  node.is_alive = false;
}

/// Removes strategies whose own cost became infinite.
void drop_infinite(Network& network, int32_t index) {
  std::vector<char> keep;
  for (const Cost cost : network.nodes[index].costs) keep.push_back(cost < kInfinite);
  if (std::ranges::find(keep, 0) != keep.end()) keep_strategies(network, index, keep);
}

bool keep_and_touch(Network& network, int32_t index, const std::vector<char>& keep,
                    std::vector<int32_t>& touched) {
  if (std::ranges::find(keep, 0) == keep.end()) return false;
  keep_strategies(network, index, keep);
  if (network.is_infeasible) return true;
  touched.push_back(index);
  for (const int32_t e : network.nodes[index].edges)
    touched.push_back(network.edges[e].other(index));
  return true;
}

void add_into(Matrix& sum, const Matrix& addend) {
  for (size_t i = 0; i < sum.costs.size(); ++i) sum.costs[i] = plus(sum.costs[i], addend.costs[i]);
}

bool merge_parallel(Network& network, int32_t index) {
  std::vector<int32_t> edges = network.nodes[index].edges;
  std::ranges::sort(edges, {},
                    [&](int32_t e) { return std::pair(network.edges[e].other(index), e); });
  bool merged = false;
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    const Edge& first = network.edges[edges[i]];
    const Edge& second = network.edges[edges[i + 1]];
    if (first.other(index) != second.other(index)) continue;
    const EdgeView first_rows(first, index), second_rows(second, index);
    Matrix sum = *first_rows;
    add_into(sum, *second_rows);
    Edge& stays = network.edges[edges[i + 1]];
    stays = {index, first.other(index), std::make_shared<Matrix>(std::move(sum))};
    disconnect(network, edges[i]);
    merged = true;
  }
  return merged;
}

/// Is every cost f(row) + g(column)? Returns such f and g, neither of which is negative.
bool is_separable(const Matrix& matrix, std::vector<Cost>& f, std::vector<Cost>& g) {
  const Cost corner = matrix.costs.front();
  for (int32_t row = 0; row < matrix.rows; ++row)
    for (int32_t column = 0; column < matrix.columns; ++column) {
      const Cost cost = matrix.at(row, column);
      if (cost >= kInfinite || cost - matrix.at(row, 0) != matrix.at(0, column) - corner)
        return false;
    }
  f.clear();
  g.clear();
  for (int32_t column = 0; column < matrix.columns; ++column) g.push_back(matrix.at(0, column));
  const Cost smallest = std::ranges::min(g);
  for (Cost& cost : g) cost -= smallest;
  for (int32_t row = 0; row < matrix.rows; ++row) f.push_back(matrix.at(row, 0) - g[0]);
  return true;
}

/// The least cost, and its strategy, for each pair of strategies of the neighbours.
struct Eliminated {
  Matrix costs;
  std::vector<int32_t> choice;
};

Eliminated eliminated(const Node& node, const EdgeView* a, const EdgeView* b) {
  const int32_t rows = a ? (*a)->columns : 1, columns = b ? (*b)->columns : 1;
  Eliminated result{
      {rows, columns, std::vector<Cost>(static_cast<size_t>(rows) * columns, kInfinite)},
      std::vector<int32_t>(static_cast<size_t>(rows) * columns, node.tags[0])};
  for (int32_t s = 0; s < node.strategies(); ++s)
    for (int32_t row = 0; row < rows; ++row) {
      const Cost before = plus(node.costs[s], a ? (*a)->at(s, row) : 0);
      if (before >= kInfinite) continue;
      for (int32_t column = 0; column < columns; ++column) {
        const Cost cost = plus(before, b ? (*b)->at(s, column) : 0);
        const size_t place = static_cast<size_t>(row) * columns + column;
        if (cost >= result.costs.costs[place]) continue;
        result.costs.costs[place] = cost;
        result.choice[place] = node.tags[s];
      }
    }
  return result;
}

/// For each strategy of the node, the only possible one of the neighbour; empty when there are
/// several.
std::vector<int32_t> determined(Edge& edge, int32_t node) {
  const bool by_row = edge.a == node;
  const uint8_t look = by_row ? Network::kDeterminedByA : Network::kDeterminedByB;
  if (edge.found_nothing & look) return {};
  const Matrix& matrix = *edge.costs;
  std::vector<int32_t> image(by_row ? matrix.rows : matrix.columns, -1);
  for (int32_t row = 0; row < matrix.rows; ++row)
    for (int32_t column = 0; column < matrix.columns; ++column) {
      if (matrix.at(row, column) >= kInfinite) continue;
      int32_t& only = image[by_row ? row : column];
      if (only >= 0) {
        edge.found_nothing |= look;
        return {};
      }
      only = by_row ? column : row;
    }
  if (std::ranges::find(image, -1) != image.end()) return {};
  return image;
}

Matrix picked(const Matrix& rows, const std::vector<int32_t>& image) {
  Matrix result{count_of(image), rows.columns, {}};
  for (const int32_t row : image)
    result.costs.insert(result.costs.end(), rows.costs.begin() + int64_t{row} * rows.columns,
                        rows.costs.begin() + int64_t{row + 1} * rows.columns);
  return result;
}

bool would_be_too_large(const Network& network, int32_t index, int32_t neighbour) {
  const int64_t rows = network.nodes[index].strategies();
  return std::ranges::any_of(network.nodes[neighbour].edges, [&](int32_t e) {
    const int32_t other = network.edges[e].other(neighbour);
    return other != index && rows * network.nodes[other].strategies() > kLargestTable;
  });
}

/// The neighbour's strategies, costs and holdings become part of the node, and its other edges move
/// to the node.
void absorb(Network& network, int32_t index, int32_t e, const std::vector<int32_t>& image) {
  const int32_t neighbour = network.edges[e].other(index);
  Node& node = network.nodes[index];
  Node& joins = network.nodes[neighbour];
  Network::Record record{neighbour, index, -1, node.tags, {}, {}};
  for (int32_t s = 0; s < node.strategies(); ++s) {
    record.choice.push_back(joins.tags[image[s]]);
    node.costs[s] = plus(node.costs[s], plus(joins.costs[image[s]],
                                             network.at(network.edges[e], index, s, image[s])));
  }
  for (const Network::Holding& holding : joins.holdings) {
    Network::Holding piece{holding.begin, holding.end, {}};
    for (const int32_t t : image) piece.usages.push_back(holding.usages[t]);
    node.holdings.push_back(std::move(piece));
    node.is_settled = false;
  }
  disconnect(network, e);
  const std::vector<int32_t> moving = joins.edges;
  for (const int32_t m : moving) {
    Edge& moves = network.edges[m];
    if (moves.other(neighbour) == index) {
      // A second edge between the two: now both ends are one node.
      for (int32_t s = 0; s < node.strategies(); ++s)
        node.costs[s] = plus(node.costs[s], network.at(moves, index, s, image[s]));
      disconnect(network, m);
      continue;
    }
    moves = {index, moves.other(neighbour),
             std::make_shared<Matrix>(picked(*EdgeView(moves, neighbour), image))};
    node.edges.push_back(m);
  }
  joins.edges.clear();
  leave(network, neighbour);
  network.records.push_back(std::move(record));
}

/// Absorbs a determined end of an edge into the other end: of two, the one with fewer edges.
bool absorb_along(Network& network, int32_t index, int32_t e) {
  Edge& edge = network.edges[e];
  const int32_t neighbour = edge.other(index);
  const bool neighbour_is_busier =
      network.nodes[neighbour].edges.size() > network.nodes[index].edges.size();
  for (const int32_t stays :
       {neighbour_is_busier ? neighbour : index, neighbour_is_busier ? index : neighbour}) {
    const std::vector<int32_t> image = determined(edge, stays);
    if (image.empty() || would_be_too_large(network, stays, edge.other(stays))) continue;
    absorb(network, stays, e, image);
    drop_infinite(network, stays);
    return true;
  }
  return false;
}

}  // namespace

bool drop_unsupported(Network& network, int32_t index, std::vector<int32_t>& touched) {
  const Node& node = network.nodes[index];
  std::vector<char> keep(node.costs.size(), 1);
  for (const int32_t e : node.edges) {
    Edge& edge = network.edges[e];
    if (edge.found_nothing & Network::kSupport) continue;
    const Matrix& matrix = *edge.costs;
    std::vector<char> row_lives(matrix.rows, 0), column_lives(matrix.columns, 0);
    for (int32_t row = 0; row < matrix.rows; ++row)
      for (int32_t column = 0; column < matrix.columns; ++column)
        if (matrix.at(row, column) < kInfinite) row_lives[row] = column_lives[column] = 1;
    const std::vector<char>& lives = edge.a == index ? row_lives : column_lives;
    const std::vector<char>& other_lives = edge.a == index ? column_lives : row_lives;
    for (size_t s = 0; s < keep.size(); ++s) keep[s] &= lives[s];
    if (std::ranges::find(other_lives, 0) == other_lives.end())
      edge.found_nothing |= Network::kSupport;
  }
  return keep_and_touch(network, index, keep, touched);
}

bool drop_dominated(Network& network, int32_t index, std::vector<int32_t>& touched) {
  settle_holdings(network, network.nodes[index]);
  if (network.nodes[index].strategies() < 2) return false;
  const std::vector<char> keep = undominated(network, index);
  return keep_and_touch(network, index, keep, touched);
}

bool simplify_edges(Network& network, int32_t index, std::vector<int32_t>& touched) {
  bool changed = merge_parallel(network, index);
  if (changed) touched.push_back(index);
  std::vector<Cost> f, g;
  const std::vector<int32_t> edges = network.nodes[index].edges;
  for (const int32_t e : edges) {
    if (network.edges[e].found_nothing & Network::kSeparable) continue;
    const Edge edge = network.edges[e];
    if (!is_separable(*edge.costs, f, g)) {
      network.edges[e].found_nothing |= Network::kSeparable;
      continue;
    }
    for (size_t s = 0; s < f.size(); ++s) network.nodes[edge.a].costs[s] += f[s];
    for (size_t t = 0; t < g.size(); ++t) network.nodes[edge.b].costs[t] += g[t];
    disconnect(network, e);
    touched.insert(touched.end(), {edge.a, edge.b});
    changed = true;
  }
  return changed;
}

bool settle_single(Network& network, int32_t index, std::vector<int32_t>& touched) {
  if (network.nodes[index].strategies() != 1) return false;
  settle_holdings(network, network.nodes[index]);
  network.constant += network.nodes[index].costs[0];
  const std::vector<int32_t> edges = network.nodes[index].edges;
  for (const int32_t e : edges) {
    const Edge edge = network.edges[e];
    const int32_t other = edge.other(index);
    Node& neighbour = network.nodes[other];
    for (int32_t t = 0; t < neighbour.strategies(); ++t)
      neighbour.costs[t] = plus(neighbour.costs[t], network.at(edge, index, 0, t));
    disconnect(network, e);
    drop_infinite(network, other);
    if (network.is_infeasible) return true;
    touched.push_back(other);
    for (const int32_t further : network.nodes[other].edges)
      touched.push_back(network.edges[further].other(other));
  }
  network.records.push_back({index, -1, -1, {}, {}, {network.nodes[index].tags[0]}});
  leave(network, index);
  return true;
}

bool eliminate(Network& network, int32_t index, std::vector<int32_t>& touched) {
  const Node& node = network.nodes[index];
  if (!node.holdings.empty() || node.edges.size() > 2) return false;
  std::vector<int32_t> around;
  for (const int32_t e : node.edges) around.push_back(network.edges[e].other(index));
  if (around.size() == 2 && around[0] == around[1]) return false;
  if (around.size() == 2 &&
      int64_t{network.nodes[around[0]].strategies()} * network.nodes[around[1]].strategies() >
          kLargestTable)
    return false;
  std::vector<std::unique_ptr<EdgeView>> rows;
  for (const int32_t e : node.edges)
    rows.push_back(std::make_unique<EdgeView>(network.edges[e], index));
  Eliminated result = eliminated(node, rows.empty() ? nullptr : rows[0].get(),
                                 rows.size() < 2 ? nullptr : rows[1].get());
  Network::Record record{index, -1, -1, {}, {}, std::move(result.choice)};
  if (!around.empty()) record.tags_a = network.nodes[record.a = around[0]].tags;
  if (around.size() == 2) record.tags_b = network.nodes[record.b = around[1]].tags;
  network.records.push_back(std::move(record));
  leave(network, index);
  touched.insert(touched.end(), around.begin(), around.end());
  if (around.empty()) {
    network.constant += result.costs.costs[0];
  } else if (around.size() == 1) {
    Node& neighbour = network.nodes[around[0]];
    for (size_t s = 0; s < neighbour.costs.size(); ++s)
      neighbour.costs[s] = plus(neighbour.costs[s], result.costs.costs[s]);
    drop_infinite(network, around[0]);
  } else {
    connect(network, around[0], around[1], std::move(result.costs));
  }
  return true;
}

bool absorb_determined(Network& network, int32_t index, std::vector<int32_t>& touched) {
  bool changed = false;
  const std::vector<int32_t> edges = network.nodes[index].edges;
  for (const int32_t e : edges) {
    if (!network.edges[e].is_alive || network.is_infeasible) continue;
    const int32_t neighbour = network.edges[e].other(index);
    if (!absorb_along(network, index, e)) continue;
    changed = true;
    touched.insert(touched.end(), {index, neighbour});
    if (!network.nodes[index].is_alive) break;
  }
  // The remaining nodes may have lost strategies, and have new neighbours.
  const std::vector<int32_t> stay = touched;
  for (const int32_t node : stay)
    for (const int32_t e : network.nodes[node].edges)
      touched.push_back(network.edges[e].other(node));
  return changed;
}

namespace {

/// A queue of nodes without duplicates.
class Line {
 public:
  explicit Line(size_t nodes) : waits_(nodes, 0) {}
  void add(int32_t node) {
    if (waits_[node]) return;
    waits_[node] = 1;
    line_.push_back(node);
  }
  bool is_empty() const { return line_.empty(); }
  int32_t next() {
    const int32_t node = line_.front();
    line_.pop_front();
    waits_[node] = 0;
    return node;
  }

 private:
  std::vector<char> waits_;
  std::deque<int32_t> line_;
};

using Steps = std::span<bool (*const)(Network&, int32_t, std::vector<int32_t>&)>;

/// Takes the first reduction that makes a step at this node.
bool take_step(Network& network, int32_t node, std::vector<int32_t>& touched, Steps steps) {
  return std::ranges::any_of(steps, [&](const auto step) { return step(network, node, touched); });
}

constexpr bool (*kQuickSteps[])(Network&, int32_t, std::vector<int32_t>&) = {
    settle_single, simplify_edges, drop_unsupported, absorb_determined, eliminate};
// The search for dominated strategies is slow, so nodes wait for it until nothing else is left.
constexpr bool (*kSlowSteps[])(Network&, int32_t, std::vector<int32_t>&) = {drop_dominated,
                                                                            eliminate};

}  // namespace

void reduce(Network& network, const std::function<bool()>& stop) {
  Line quick(network.nodes.size()), slow(network.nodes.size());
  const auto add = [&](int32_t node) {
    if (!network.nodes[node].is_alive) return;
    quick.add(node);
    slow.add(node);
  };
  for (int32_t i = 0; i < std::ssize(network.nodes); ++i) add(i);
  std::vector<int32_t> touched;
  for (int64_t turns = 1;; ++turns) {
    if (network.is_infeasible || (turns % 64 == 0 && stop())) return;
    if (quick.is_empty() && slow.is_empty()) {
      for (const int32_t node : compress_moments(network)) add(node);
      if (quick.is_empty()) return;
    }
    const bool is_quick = !quick.is_empty();
    const int32_t node = is_quick ? quick.next() : slow.next();
    if (!network.nodes[node].is_alive) continue;
    touched.clear();
    if (take_step(network, node, touched, is_quick ? Steps(kQuickSteps) : Steps(kSlowSteps)))
      for (const int32_t next : touched) add(next);
  }
}

}  // namespace tessera::solver
