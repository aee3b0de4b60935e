#include "planner/placement/search_problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/solver/solve.h"
#include "planner/placement/search_policy.h"
#include "sharding/explicit/explicit_shardings.h"

namespace tessera {
namespace {

SearchProblemOptions with_overlap(SearchProblemOptions options, double share) {
  options.overlap = share;
  return options;
}

bool is_for_optimizer(const Graph& graph, ValueId value) {
  return std::ranges::all_of(graph.value(value).users,
                             [&](OpId user) { return graph.op(user).role == Role::kOptimizer; });
}

bool has_reader(const Graph& graph, ValueId value, Role role) {
  return std::ranges::any_of(graph.value(value).users,
                             [&](OpId user) { return graph.op(user).role == role; });
}

/// Keeps the placements that the value may have; all that it may have when none of them is there.
void keep_allowed(const SearchConstraints& constraints, ValueId value,
                  ReshardPrices::TypeIndex type, ReshardPrices& prices,
                  std::vector<ReshardPrices::PlacementIndex>& placements) {
  const auto found = constraints.canonical_placements.find(value.index);
  if (found == constraints.canonical_placements.end()) return;
  std::vector<ReshardPrices::PlacementIndex> allowed;
  for (const DistAttr& canonical_placement : found->second)
    allowed.push_back(prices.placement_index(type, canonical_placement));
  std::vector<ReshardPrices::PlacementIndex> kept;
  for (ReshardPrices::PlacementIndex placement : placements)
    if (std::ranges::count(allowed, placement)) kept.push_back(placement);
  placements = kept.empty() ? allowed : kept;
}

/// A variable or an input is kept in plain parts, or in the chunks that its readers take.
///   chunks  by dim: their numbers
bool may_be_canonical(const DistAttr& attr, const std::vector<std::set<int64_t>>& chunks) {
  for (size_t dim = 0; dim < attr.dims.size(); ++dim)
    if (attr.dims[dim].chunks != 1 && !chunks[dim].contains(attr.dims[dim].chunks)) return false;
  return attr.partial.empty() && !attr.has_windows();
}

}  // namespace

SearchProblem::SearchProblem(const Graph& graph, MeshPtr mesh, const CostModel& cost,
                             const SharedDecisions& shared_decisions,
                             const SearchProblemOptions& options)
    : SearchProblem(std::make_shared<const MeshStrategies>(
                        std::make_shared<const ClusteredGraph>(graph, shared_decisions, options),
                        std::move(mesh), cost, options),
                    options.overlap) {}

SearchProblem::SearchProblem(std::shared_ptr<const MeshStrategies> strategies, double overlap)
    : strategies_(std::move(strategies)),
      graph_(strategies_->clustered().graph),
      shared_decisions_(strategies_->clustered().shared_decisions),
      options_(with_overlap(strategies_->options(), overlap)),
      reading_(strategies_->clustered().reading),
      moments_(strategies_->clustered().moments),
      types_(strategies_->types()),
      prices_(strategies_->prices()),
      shardings_(graph_.ops().size()),
      op_node_(graph_.ops().size(), -1),
      canonical_node_(graph_.values().size(), -1),
      copy_node_(graph_.values().size(), -1),
      first_slot_(graph_.ops().size(), 0),
      readers_(graph_.values().size()) {
  for (const MeshStrategies::OpCluster& op_cluster : strategies_->op_clusters())
    add_op_cluster(op_cluster);
  for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
    op_node_[i] = op_node_[shared_decisions_.of_op[i]];
    first_slot_[i] = first_slot_[shared_decisions_.of_op[i]];
  }
  for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
    const Op& op = graph_.ops()[i];
    for (int k = 0; k < std::ssize(op.inputs); ++k)
      if (reading_.kind(OpId{i}, k) == OpClusterReads::Kind::kAlone)
        readers_[shared_decisions_.of_value[op.inputs[k].index]].insert(
            {op_node_[i], first_slot_[i] + static_cast<int>(op.outputs.size()) + k});
  }
  add_canonical_nodes();
  add_copies();
  for (int i = 0; i < std::ssize(graph_.values()); ++i) {
    const bool is_marked =
        options_.constraints.canonical_placements.contains(shared_decisions_.of_value[i]);
    placed_node_.push_back(canonical_node_[i] < 0 && is_marked ? copy_node_[i]
                                                               : canonical_node_[i]);
  }
  connect_values();
  add_results();
  hold_memory();
  do make_problem();
  while (unit_.enlarge_for(solver::sum_of_largest(problem_)));
}

int64_t SearchProblem::strategies() const {
  return std::accumulate(
      nodes_.begin(), nodes_.end(), int64_t{0},
      [](int64_t sum, const Node& node) { return sum + std::ssize(node.seconds); });
}

// ---- nodes ----

int SearchProblem::add_value_node(ValueId value, std::vector<PlacementIndex> placements) {
  std::ranges::sort(placements);
  placements.erase(std::ranges::unique(placements).begin(), placements.end());
  Node node{0, graph_.value(value).name, std::vector<double>(placements.size(), 0.0), {placements}};
  for (int i = 0; i < std::ssize(graph_.values()); ++i)
    node.members += shared_decisions_.of_value[i] == value.index;
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

std::vector<SearchProblem::PlacementIndex> SearchProblem::placements_of_readers(
    ValueId value) const {
  std::vector<PlacementIndex> list;
  for (const auto& [node, slot] : readers_[value.index])
    list.insert(list.end(), nodes_[node].operand[slot].begin(), nodes_[node].operand[slot].end());
  std::ranges::sort(list);
  list.erase(std::ranges::unique(list).begin(), list.end());
  return list;
}

void SearchProblem::add_canonical_nodes() {
  const auto add = [&](ValueId value, std::optional<ValueId> next) {
    const int first = shared_decisions_.of_value[value.index];
    if (first != value.index) {
      canonical_node_[value.index] = canonical_node_[first];
      return;
    }
    const TypeIndex type = types_[value.index];
    std::vector<PlacementIndex> placements = placements_of_readers(value);
    if (next && graph_.value(*next).producer.index >= 0) {
      const Source maker = source_of(*next);
      const auto& made = nodes_[maker.node].operand[maker.slot];
      placements.insert(placements.end(), made.begin(), made.end());
    }
    std::vector<PlacementIndex> canonical_placements{prices_.placement_index(
        type, DistAttr::replicated(strategies_->mesh(),
                                   static_cast<int>(graph_.type(value).shape.size())))};
    for (PlacementIndex placement : placements)
      if (may_be_canonical(prices_.placement(type, placement),
                           strategies_->clustered().chunks.of_value[value.index]))
        canonical_placements.push_back(placement);
    keep_allowed(options_.constraints, value, types_[value.index], prices_, canonical_placements);
    canonical_node_[value.index] = add_value_node(value, canonical_placements);
    nodes_[canonical_node_[value.index]].is_deferred = true;
  };
  for (ValueId input : graph_.inputs()) {
    add(input, std::nullopt);
    Node& node = nodes_[canonical_node_[input.index]];  // a rank takes its part of the batch
    for (size_t s = 0; s < node.seconds.size(); ++s)
      node.seconds[s] = copy_price(prices_.local_bytes(types_[input.index], node.operand[0][s]), 1,
                                   strategies_->cost().device)
                            .estimate.value();
  }
  for (const Variable& variable : graph_.variables()) add(variable.value, variable.next);
}

void SearchProblem::add_copies() {
  for (int i = 0; i < std::ssize(graph_.values()); ++i) {
    const ValueId value{i};
    if (!shared_decisions_.is_first(value)) {
      copy_node_[i] = copy_node_[shared_decisions_.of_value[i]];
      continue;
    }
    const bool is_marked =
        canonical_node_[i] < 0 && options_.constraints.canonical_placements.contains(i);
    if (readers_[i].size() < 2 && !is_marked) continue;
    std::vector<PlacementIndex> placements = placements_of_readers(value);
    const Source source = source_of(value);
    const auto& made = nodes_[source.node].operand[source.slot];
    placements.insert(placements.end(), made.begin(), made.end());
    std::ranges::sort(placements);
    placements.erase(std::ranges::unique(placements).begin(), placements.end());
    if (is_marked)
      keep_allowed(options_.constraints, value, types_[value.index], prices_, placements);
    copy_node_[i] = add_value_node(value, placements);
    Node& node = nodes_[copy_node_[i]];
    node.is_deferred = graph_.variable_of(value) || is_for_optimizer(graph_, value);
    node.is_copy = true;
    node.operand.push_back(node.operand[0]);
    if (!is_marked) node.add_pairs();
    if (!graph_.variable_of(value) || !has_reader(graph_, value, Role::kForward) ||
        !has_reader(graph_, value, Role::kBackward))
      continue;
    const size_t count = node.seconds.size();
    if (options_.constraints.copies_by_pass.contains(i)) {
      node.life.assign(count, ReplicaLifetime::kPass);
      continue;
    }
    node.life.assign(count, ReplicaLifetime::kStep);
    node.life.resize(2 * count, ReplicaLifetime::kPass);
    node.seconds.resize(2 * count, 0.0);
    for (std::vector<PlacementIndex>& placements_of_slot : node.operand) {
      const std::vector<PlacementIndex> once = placements_of_slot;
      placements_of_slot.insert(placements_of_slot.end(), once.begin(), once.end());
    }
  }
}

/// Readers take the value from where it takes least, so of a value that is made in parts of rows
/// one may read all of it, and another one the parts.
void SearchProblem::Node::add_pairs() {
  const std::vector<PlacementIndex> alone = operand[0];
  if (alone.size() > kSearchPolicy.paired_placements) return;
  for (size_t a = 0; a < alone.size(); ++a)
    for (size_t b = a + 1; b < alone.size(); ++b) {
      operand[0].push_back(alone[a]);
      operand[1].push_back(alone[b]);
      seconds.push_back(0);
    }
}

SearchProblem::Source SearchProblem::source_of(ValueId value) const {
  const OpId producer = graph_.value(value).producer;
  if (producer.index < 0) return {canonical_node_[value.index], 0};
  const std::vector<ValueId>& outputs = graph_.op(producer).outputs;
  const auto output = std::ranges::find(outputs, value) - outputs.begin();
  return {op_node_[producer.index], first_slot_[producer.index] + static_cast<int>(output)};
}

// ---- connections ----

void SearchProblem::connect_values() {
  for (int i = 0; i < std::ssize(graph_.values()); ++i) {
    if (copy_node_[i] < 0) continue;
    const Source source = source_of(ValueId{i});
    ++connections_[{source.node, source.slot, copy_node_[i], 0, types_[i]}].count;
  }
  const auto reads = [&](OpId op, int input) {
    const ValueId value = graph_.op(op).inputs[input];
    const int copy = copy_node_[value.index];
    const Source source = copy >= 0 ? Source{copy, 0} : source_of(value);
    return Connection{
        source.node, source.slot, op_node_[op.index],
        first_slot_[op.index] + static_cast<int>(graph_.op(op).outputs.size()) + input,
        types_[value.index]};
  };
  for (int i = 0; i < std::ssize(graph_.ops()); ++i)
    for (int k = 0; k < std::ssize(graph_.ops()[i].inputs); ++k) {
      const OpId op{i};
      const ValueId value = graph_.op(op).inputs[k];
      Connection connection = reads(op, k);
      switch (reading_.kind(op, k)) {
        case OpClusterReads::Kind::kAlone: {
          Uses& uses = connections_[connection];
          ++uses.count;
          uses.readers.push_back({i, i});
          break;
        }
        case OpClusterReads::Kind::kMade: break;
        case OpClusterReads::Kind::kGiven: {
          const OpId first = reading_.first_reader(op, k);
          const auto& inputs = graph_.op(first).inputs;
          const auto place = std::ranges::find(inputs, value) - inputs.begin();
          for (Lifetime& reader : connections_.at(reads(first, static_cast<int>(place))).readers)
            if (reader.first == first.index) reader.last = i;
          break;
        }
      }
    }
  for (const Variable& variable : graph_.variables()) {
    if (!variable.next || *variable.next == variable.value) continue;
    const Source maker = source_of(*variable.next);
    ++connections_[{maker.node, maker.slot, canonical_node_[variable.value.index], 0,
                    types_[variable.value.index]}]
          .count;
  }
}

/// Results of the program are no partial sums.
void SearchProblem::add_results() {
  for (const auto& [name, value] : graph_.outputs()) {
    const Source source = source_of(value);
    Node& node = nodes_[source.node];
    const TypeIndex type = types_[value.index];
    for (size_t s = 0; s < node.seconds.size(); ++s) {
      const PlacementIndex made = node.operand[source.slot][s];
      const PlacementIndex whole =
          prices_.placement_index(type, without_partial(prices_.placement(type, made)));
      node.seconds[s] += prices_.price(type, made, whole).estimate.value() / node.members;
    }
  }
}

// ---- the problem ----

void SearchProblem::make_problem() {
  problem_ = {};
  for (const Node& node : nodes_) {
    std::vector<solver::Cost> costs;
    for (double time : node.seconds) costs.push_back(unit_.cost_of(node.members * time));
    if (node.usage.empty()) {
      problem_.add_node({}, costs, std::vector<solver::Usage>(costs.size(), 0));
      continue;
    }
    const auto& [span, usage] = *node.usage.begin();
    problem_.add_node({span.first, span.second}, costs, usage);
  }
  add_other_usages();
  const auto seconds = [&](const Connection& connection, int from, int to) {
    const Node& target = nodes_[connection.to];
    const auto between = [&](PlacementIndex a, PlacementIndex b) {
      return exchange_time(options_, prices_.price(connection.type, a, b), target.is_deferred)
          .value();
    };
    const auto made = [&](PlacementIndex wanted) {
      return nodes_[connection.from].smallest(
          connection.from_slot, from, [&](PlacementIndex held) { return between(held, wanted); });
    };
    return target.all(connection.to_slot, to, made, between);
  };
  std::map<std::pair<int, int>, std::vector<std::pair<Connection, int64_t>>> edges;
  for (const auto& [connection, uses] : connections_)
    edges[{connection.from, connection.to}].emplace_back(connection, uses.count);
  for (const auto& [ends, list] : edges) {
    const Node& a = nodes_[ends.first];
    const Node& b = nodes_[ends.second];
    const bool copies_variable = !b.life.empty();
    std::vector<solver::Cost> costs;
    std::vector<solver::Usage> usages;
    for (int s = 0; s < std::ssize(a.seconds); ++s)
      for (int t = 0; t < std::ssize(b.seconds); ++t) {
        double sum = 0;
        for (const auto& [connection, count] : list)
          sum += static_cast<double>(count) * seconds(connection, s, t);
        costs.push_back(unit_.cost_of(sum));
        if (!copies_variable) continue;
        solver::Usage kept = 0;
        const auto keep = [&](PlacementIndex copy) {
          if (copy != a.operand[0][s])
            kept += b.members * prices_.local_bytes(list.front().first.type, copy).value();
        };
        if (b.life[t] == ReplicaLifetime::kStep) {
          keep(b.operand[0][t]);
          if (b.operand[1][t] != b.operand[0][t]) keep(b.operand[1][t]);
        }
        usages.push_back(kept);
      }
    problem_.add_edge(ends.first, ends.second, costs, copies_variable ? b.kept : solver::Interval{},
                      usages);
  }
}

std::string SearchProblem::contradiction() const {
  for (int i = 0; i < problem_.edges(); ++i) {
    const solver::Problem::Edge& edge = problem_.edge(i);
    if (std::ranges::all_of(problem_.costs(edge),
                            [](solver::Cost cost) { return cost >= solver::kForbidden; }))
      return "'" + nodes_[edge.a].name + "' and '" + nodes_[edge.b].name + "'";
  }
  return "";
}

// ---- the answer ----

solver::Assignment SearchProblem::separate(const SearchProblem& shared,
                                           const solver::Assignment& assignment) const {
  std::vector<std::vector<bool>> differs;
  for (const Node& node : nodes_) differs.emplace_back(node.seconds.size(), false);
  for (int i = 0; i < std::ssize(graph_.ops()); ++i) {
    const int first = shared.shared_decisions_.of_op[i];
    const OpSharding& chosen = shared.shardings_[first][assignment[shared.op_node_[i]]];
    const std::vector<OpSharding>& own = shardings_[shared_decisions_.of_op[i]];
    for (size_t s = 0; s < own.size(); ++s)
      if (!(own[s] == chosen)) differs[op_node_[i]][s] = true;
  }
  const auto compare = [&](int own, int other, TypeIndex type) {
    if (own < 0 || other < 0) return;
    const Node& node = shared.nodes_[other];
    const int chosen = assignment[other];
    const size_t last = node.operand.size() - 1;
    const auto is_same = [&](size_t s, size_t slot, size_t chosen_slot) {
      return prices_.placement(type, nodes_[own].operand[slot][s]) ==
             shared.prices_.placement(type, node.operand[chosen_slot][chosen]);
    };
    for (size_t s = 0; s < differs[own].size(); ++s)
      if (!((is_same(s, 0, 0) && is_same(s, last, last)) ||
            (is_same(s, 0, last) && is_same(s, last, 0))) ||
          (!node.life.empty() && !nodes_[own].life.empty() &&
           nodes_[own].life[s] != node.life[chosen]))
        differs[own][s] = true;
  };
  for (int i = 0; i < std::ssize(graph_.values()); ++i) {
    compare(canonical_node_[i], shared.canonical_node_[i], types_[i]);
    compare(copy_node_[i], shared.copy_node_[i], types_[i]);
  }
  solver::Assignment found;
  for (const std::vector<bool>& node : differs) {
    const auto same = std::ranges::find(node, false);
    found.push_back(same == node.end() ? 0 : static_cast<int32_t>(same - node.begin()));
  }
  return found;
}

ShardedGraph SearchProblem::placements(const solver::Assignment& assignment) const {
  ShardedGraph sharded;
  sharded.meshes = one_mesh(strategies_->mesh());
  sharded.stages = {std::vector<int>(graph_.ops().size(), 0),
                    std::vector<int>(graph_.values().size(), 0)};
  sharded.rules = strategies_->clustered().rules;
  for (int i = 0; i < std::ssize(graph_.ops()); ++i)
    sharded.ops.push_back(shardings_[shared_decisions_.of_op[i]][assignment[op_node_[i]]]);
  sharded.copies.assign(graph_.values().size(), ReplicaLifetime::kStep);
  for (int i = 0; i < std::ssize(graph_.values()); ++i) {
    const int canonical_placement = placed_node_[i];
    sharded.values.push_back(
        canonical_placement < 0
            ? default_placement(graph_, sharded, ValueId{i})
            : prices_.placement(
                  types_[i],
                  nodes_[canonical_placement].operand[0][assignment[canonical_placement]]));
    if (copy_node_[i] >= 0 && !nodes_[copy_node_[i]].life.empty())
      sharded.copies[i] = nodes_[copy_node_[i]].life[assignment[copy_node_[i]]];
  }
  for (const Variable& variable : graph_.variables())
    if (variable.next) sharded.values[variable.next->index] = sharded.at(variable.value);
  sharded.value_reasons.assign(graph_.values().size(), "the search chose it");
  return sharded;
}

}  // namespace tessera
