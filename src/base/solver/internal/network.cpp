#include "base/solver/internal/network.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace tessera::solver {
namespace {

using Holding = Network::Holding;

Cost inside(Cost cost) {
  return cost >= kForbidden ? kInfinite : cost;
}

std::vector<Moment> times_of(const Problem& problem) {
  std::vector<Moment> times;
  const auto note = [&times](Interval interval) {
    if (!interval.is_empty()) times.insert(times.end(), {interval.begin, interval.end});
  };
  for (int32_t i = 0; i < problem.nodes(); ++i) note(problem.node(i).interval);
  for (int32_t e = 0; e < problem.edges(); ++e)
    if (problem.edge(e).usages != Problem::Edge::kNothing) note(problem.edge(e).interval);
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

/// Builds a network from a problem. Equal rows of the problem become one matrix.
class Builder {
 public:
  Builder(const Problem& problem, Network& network) : problem_(problem), network_(network) {}

  void build() {
    network_.first_time = times_of(problem_);
    if (problem_.usage_limit() && !network_.first_time.empty())
      network_.limits.assign(network_.first_time.size() - 1, *problem_.usage_limit());
    network_.taken.assign(network_.limits.size() + 1, 0);
    if (problem_.usage_limit() && *problem_.usage_limit() < 0 && network_.limits.empty())
      network_.is_infeasible = true;
    network_.nodes.resize(problem_.nodes());
    for (int32_t i = 0; i < problem_.nodes(); ++i) add_node(i);
    for (int32_t e = 0; e < problem_.edges(); ++e) add_edge(problem_.edge(e));
    for (int32_t i = 0; i < std::ssize(network_.nodes); ++i) drop_forbidden(i);
  }

 private:
  void add_node(int32_t index) {
    const Problem::Node& from = problem_.node(index);
    Network::Node& node = network_.nodes[index];
    for (const Cost cost : problem_.costs(from)) node.costs.push_back(inside(cost));
    node.tags.resize(from.strategies);
    for (int32_t s = 0; s < from.strategies; ++s) node.tags[s] = s;
    const auto usages = problem_.usages(from);
    hold(node, from.interval, {usages.begin(), usages.end()});
  }

  void hold(Network::Node& node, Interval interval, std::vector<Usage> usages) {
    if (network_.limits.empty() || interval.is_empty()) return;
    const auto moment = [this](Moment time) {
      return static_cast<int32_t>(std::ranges::lower_bound(network_.first_time, time) -
                                  network_.first_time.begin());
    };
    node.holdings.push_back({moment(interval.begin), moment(interval.end), std::move(usages)});
  }

  void add_edge(const Problem::Edge& from) {
    if (from.a == from.b) return add_loop(from);
    if (!problem_.usages(from).empty() && !from.interval.is_empty() && !network_.limits.empty())
      return add_pair_node(from);
    connect(from.a, from.b, matrix(from));
  }

  void connect(int32_t a, int32_t b, std::shared_ptr<const Matrix> costs) {
    const auto edge = count_of(network_.edges);
    network_.edges.push_back({a, b, std::move(costs)});
    network_.nodes[a].edges.push_back(edge);
    network_.nodes[b].edges.push_back(edge);
  }

  std::shared_ptr<const Matrix> matrix(const Problem::Edge& from) {
    const int32_t columns = problem_.strategies(from.b);
    std::shared_ptr<const Matrix>& known =
        matrices_[(uint64_t{from.costs} << 32) + static_cast<uint64_t>(columns)];
    if (known) return known;
    auto made = std::make_shared<Matrix>(Matrix{problem_.strategies(from.a), columns, {}});
    for (const Cost cost : problem_.costs(from)) made->costs.push_back(inside(cost));
    return known = std::move(made);
  }

  /// For an edge of a node with itself only the diagonal counts.
  void add_loop(const Problem::Edge& from) {
    Network::Node& node = network_.nodes[from.a];
    const size_t count = node.costs.size();
    std::vector<Usage> usages;
    for (size_t s = 0; s < count; ++s) {
      node.costs[s] = plus(node.costs[s], inside(problem_.costs(from)[s * count + s]));
      if (!problem_.usages(from).empty()) usages.push_back(problem_.usages(from)[s * count + s]);
    }
    if (!usages.empty()) hold(node, from.interval, std::move(usages));
  }

  /// An edge that holds memory becomes a node whose strategies are the pairs; two edges make it
  /// agree with its ends.
  void add_pair_node(const Problem::Edge& from) {
    const int32_t rows = problem_.strategies(from.a), columns = problem_.strategies(from.b);
    const auto pair_node = count_of(network_.nodes);
    Network::Node node;
    Matrix with_a{rows, rows * columns,
                  std::vector<Cost>(static_cast<size_t>(rows) * rows * columns, kInfinite)};
    Matrix with_b{columns, rows * columns,
                  std::vector<Cost>(static_cast<size_t>(columns) * rows * columns, kInfinite)};
    for (int32_t pair = 0; pair < rows * columns; ++pair) {
      node.costs.push_back(inside(problem_.costs(from)[pair]));
      node.tags.push_back(pair);
      with_a.at(pair / columns, pair) = 0;
      with_b.at(pair % columns, pair) = 0;
    }
    const auto usages = problem_.usages(from);
    hold(node, from.interval, {usages.begin(), usages.end()});
    network_.nodes.push_back(std::move(node));
    connect(from.a, pair_node, std::make_shared<Matrix>(std::move(with_a)));
    connect(from.b, pair_node, std::make_shared<Matrix>(std::move(with_b)));
  }

  void drop_forbidden(int32_t index) {
    Network::Node& node = network_.nodes[index];
    std::vector<char> keep;
    for (const Cost cost : node.costs) keep.push_back(cost < kInfinite);
    if (std::ranges::find(keep, 0) != keep.end()) keep_strategies(network_, index, keep);
  }

  const Problem& problem_;
  Network& network_;
  std::unordered_map<uint64_t, std::shared_ptr<const Matrix>> matrices_;
};

int32_t row_of(const std::vector<int32_t>& tags, int32_t tag) {
  const auto place = std::ranges::lower_bound(tags, tag);
  ensure(place != tags.end() && *place == tag, "a strategy that a record asks for was there");
  return static_cast<int32_t>(place - tags.begin());
}

}  // namespace

Matrix transposed(const Matrix& matrix) {
  Matrix result{matrix.columns, matrix.rows, std::vector<Cost>(matrix.costs.size())};
  for (int32_t row = 0; row < matrix.rows; ++row)
    for (int32_t column = 0; column < matrix.columns; ++column)
      result.at(column, row) = matrix.at(row, column);
  return result;
}

Network::Network(const Problem& problem) {
  Builder(problem, *this).build();
}

Assignment Network::expand(Assignment tags, int32_t problem_nodes) const {
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    const int32_t row = record->a < 0 ? 0 : row_of(record->tags_a, tags[record->a]);
    const int32_t column = record->b < 0 ? 0 : row_of(record->tags_b, tags[record->b]);
    tags[record->node] = record->choice[row * std::max<size_t>(record->tags_b.size(), 1) + column];
  }
  tags.resize(problem_nodes);
  return tags;
}

namespace {

/// Overlapping holdings as disjoint ones, in order: the usage of each strategy between each moment
/// of change and the next.
std::vector<Holding> disjoint(const std::vector<Holding>& holdings, size_t strategies) {
  struct Change {
    int32_t moment;
    const Holding* holding;
    Usage sign;
  };
  std::vector<Change> changes;
  for (const Holding& holding : holdings) {
    changes.push_back({holding.begin, &holding, 1});
    changes.push_back({holding.end, &holding, -1});
  }
  std::ranges::stable_sort(changes, {}, &Change::moment);
  std::vector<Holding> result;
  std::vector<Usage> held;
  held.resize(strategies);
  int64_t live = 0;
  for (size_t i = 0; i < changes.size();) {
    const int32_t now = changes[i].moment;
    for (; i < changes.size() && changes[i].moment == now; ++i) {
      for (size_t s = 0; s < strategies; ++s)
        held[s] += changes[i].sign * changes[i].holding->usages[s];
      live += changes[i].sign;
    }
    if (live > 0) result.push_back({now, changes[i].moment, held});
  }
  return result;
}

}  // namespace

void settle_holdings(Network& network, Network::Node& node) {
  if (node.is_settled) return;
  node.is_settled = true;
  if (node.holdings.empty()) return;
  std::vector<Holding> settled;
  for (Holding& holding : disjoint(node.holdings, node.costs.size())) {
    const Usage smallest = std::ranges::min(holding.usages);
    for (Usage& usage : holding.usages) usage -= smallest;
    network.taken[holding.begin] += smallest;
    network.taken[holding.end] -= smallest;
    if (std::ranges::max(holding.usages) == 0) continue;
    if (!settled.empty() && settled.back().end == holding.begin &&
        settled.back().usages == holding.usages)
      settled.back().end = holding.end;
    else
      settled.push_back(std::move(holding));
  }
  node.holdings = std::move(settled);
}

void keep_strategies(Network& network, int32_t index, const std::vector<char>& keep) {
  Network::Node& node = network.nodes[index];
  const auto kept =
      static_cast<int32_t>(std::ranges::count_if(keep, [](char flag) { return flag != 0; }));
  if (kept == 0) {
    network.is_infeasible = true;
    return;
  }
  const auto filter = [&keep](auto& list) {
    size_t filled = 0;
    for (size_t s = 0; s < keep.size(); ++s)
      if (keep[s]) list[filled++] = list[s];
    list.erase(list.begin() + filled, list.end());
  };
  filter(node.costs);
  filter(node.tags);
  for (Holding& holding : node.holdings) filter(holding.usages);
  node.is_settled = false;
  for (const int32_t e : node.edges) {
    Network::Edge& edge = network.edges[e];
    const Matrix& before = *edge.costs;
    const bool is_row = edge.a == index;
    Matrix after{is_row ? kept : before.rows, is_row ? before.columns : kept, {}};
    after.costs.reserve(static_cast<size_t>(after.rows) * after.columns);
    for (int32_t row = 0; row < before.rows; ++row)
      for (int32_t column = 0; column < before.columns; ++column)
        if (keep[is_row ? row : column]) after.costs.push_back(before.at(row, column));
    edge.costs = std::make_shared<Matrix>(std::move(after));
    edge.found_nothing = 0;
  }
}

}  // namespace tessera::solver
