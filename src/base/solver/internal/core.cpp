#include "base/solver/internal/core.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace tessera::solver {
namespace {

double core_cost(Cost cost) {
  return cost >= kInfinite ? kNever : to_double(cost);
}

/// The positions of the costs of matrices in the table. Equal matrices are stored once.
class TablePlaces {
 public:
  explicit TablePlaces(std::vector<double>& table) : table_(table) {}

  std::pair<size_t, size_t> at(const Matrix& matrix) {
    const auto [place, is_new] =
        known_.try_emplace(&matrix, table_.size(), table_.size() + matrix.costs.size());
    if (!is_new) return place->second;
    for (const Cost cost : matrix.costs) table_.push_back(core_cost(cost));
    for (int32_t column = 0; column < matrix.columns; ++column)
      for (int32_t row = 0; row < matrix.rows; ++row)
        table_.push_back(core_cost(matrix.at(row, column)));
    return place->second;
  }

 private:
  std::vector<double>& table_;
  std::unordered_map<const Matrix*, std::pair<size_t, size_t>> known_;
};

void add_node(Core& core, const Network::Node& node) {
  for (const Cost cost : node.costs) core.costs.push_back(core_cost(cost));
  core.first.push_back(core.costs.size());
  for (const Network::Holding& holding : node.holdings) {
    core.piece_list.push_back({holding.begin, holding.end, core.usage_list.size()});
    core.usage_list.insert(core.usage_list.end(), holding.usages.begin(), holding.usages.end());
  }
  core.first_piece.push_back(core.piece_list.size());
}

void add_neighbours(Core& core) {
  std::vector<size_t> count(core.nodes() + 1, 0);
  for (const Core::Edge& edge : core.edges) {
    ++count[edge.a + 1];
    ++count[edge.b + 1];
  }
  for (size_t i = 1; i < count.size(); ++i) count[i] += count[i - 1];
  core.first_neighbour = count;
  core.neighbour_list.resize(count.back());
  for (int32_t e = 0; e < std::ssize(core.edges); ++e) {
    const Core::Edge& edge = core.edges[e];
    core.neighbour_list[count[edge.a]++] = {edge.b, e, edge.rows_of_a, edge.rows_of_b};
    core.neighbour_list[count[edge.b]++] = {edge.a, e, edge.rows_of_b, edge.rows_of_a};
  }
}

}  // namespace

Core::Core(const Network& network)
    : first{0}, first_piece{0}, limits(network.limits), first_time(network.first_time) {
  ensure(!network.is_infeasible, "only what can have an answer is searched");
  first_time.resize(limits.size());
  Usage taken = 0;
  for (size_t m = 0; m < limits.size(); ++m) limits[m] -= taken += network.taken[m];
  std::vector<int32_t> number(network.nodes.size(), -1);
  for (int32_t i = 0; i < std::ssize(network.nodes); ++i) {
    if (!network.nodes[i].is_alive) continue;
    number[i] = nodes();
    network_node.push_back(i);
    add_node(*this, network.nodes[i]);
  }
  TablePlaces places(table);
  for (const Network::Edge& edge : network.edges) {
    if (!edge.is_alive) continue;
    const auto [rows, columns] = places.at(*edge.costs);
    edges.push_back({number[edge.a], number[edge.b], rows, columns});
    pairs += std::ssize(edge.costs->costs);
  }
  add_neighbours(*this);
  constant = to_double(network.constant);
}

Assignment Core::tags(const Network& network, const Assignment& assignment) const {
  Assignment result(network.nodes.size(), kNoStrategy);
  for (int32_t i = 0; i < nodes(); ++i)
    result[network_node[i]] = network.nodes[network_node[i]].tags[assignment[i]];
  return result;
}

Assignment Core::from_tags(const Network& network, const Assignment& tags) const {
  Assignment result(nodes(), kNoStrategy);
  for (int32_t i = 0; i < nodes(); ++i) {
    const std::vector<int32_t>& known = network.nodes[network_node[i]].tags;
    const auto place = std::ranges::lower_bound(known, tags[network_node[i]]);
    if (place != known.end() && *place == tags[network_node[i]])
      result[i] = static_cast<int32_t>(place - known.begin());
  }
  return result;
}

double cost_of(const Core& core, const Assignment& assignment) {
  double cost = core.constant;
  for (int32_t i = 0; i < core.nodes(); ++i) cost += core.costs_of(i)[assignment[i]];
  for (const Core::Edge& edge : core.edges)
    cost +=
        core.row(edge.rows_of_a, assignment[edge.a], core.strategies(edge.b))[assignment[edge.b]];
  return cost;
}

}  // namespace tessera::solver
