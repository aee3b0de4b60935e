#include "planner/placement/internal/op_clusters.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "ir/ops/operator.h"
#include "planner/placement/internal/fusion/fusion.h"

namespace tessera {
namespace {

/// What a group reads and is read by.
struct GroupEdges {
  std::set<FusionGroupIndex> producers, readers;
  bool is_result = false;  // of the program, or the next value of a variable
  int64_t bytes_in = 0, bytes_out = 0;
};

using Edges = IndexedVector<FusionGroupIndex, GroupEdges>;

Edges edges_of(const Graph& graph, const FusionGroups& groups) {
  Edges edges;
  for (int i = 0; i < groups.groups.size(); ++i) edges.push_back({});
  for (int i = 0; i < std::ssize(graph.values()); ++i) {
    const Value& value = graph.values()[i];
    if (value.producer.index < 0) continue;
    const FusionGroupIndex producer = groups.at(value.producer);
    const int64_t bytes = byte_size(value.type).value();
    std::set<FusionGroupIndex> readers;
    for (OpId user : value.users)
      if (groups.at(user) != producer) readers.insert(groups.at(user));
    if (!readers.empty()) edges[producer].bytes_out += bytes;
    for (FusionGroupIndex reader : readers) {
      edges[producer].readers.insert(reader);
      edges[reader].producers.insert(producer);
      edges[reader].bytes_in += bytes;
    }
  }
  const auto mark_result = [&](ValueId value) {
    if (const OpId producer = graph.value(value).producer; producer.index >= 0)
      edges[groups.at(producer)].is_result = true;
  };
  for (const auto& [name, value] : graph.outputs()) mark_result(value);
  for (const Variable& variable : graph.variables())
    if (variable.next) mark_result(*variable.next);
  return edges;
}

/// Does the group only move elements? Then an exchange behind it is as well one before it.
bool moves_only(const Graph& graph, const FusionGroup& group) {
  if (group.kind != FusionKind::kAlone) return false;
  const Op& op = graph.op(group.ops.front());
  if (op.inputs.size() != 1 || !op.regions.empty()) return false;
  const OpView op_view = view(graph, op);
  if (!op_view.definition->rule) return false;
  const ShardingRule rule = op_view.definition->rule(op_view);
  return std::ranges::none_of(rule.factors, [](const Factor& factor) {
    return factor.kind == FactorKind::kReduction || factor.kind == FactorKind::kMaskedReduction;
  });
}

class OpClusterSearch {
 public:
  OpClusterSearch(const Graph& graph, const SearchConstraints& constraints)
      : graph_(graph), groups_(fusion_groups(graph)), edges_(edges_of(graph, groups_)) {
    for (int i = 0; i < groups_.groups.size(); ++i) {
      is_constrained_.push_back(has_constraint(constraints, FusionGroupIndex(i)));
      root_.push_back(FusionGroupIndex());
      computes_.push_back(!moves_only(graph, groups_.groups[FusionGroupIndex(i)]));
    }
  }

  OpClusters run() {
    OpClusters op_clusters = single_ops(graph_);
    for (FusionGroupIndex group : groups_.groups.indices()) {
      if (is_constrained_[group]) continue;
      const FusionKind kind = groups_.groups[group].kind;
      const bool is_loop_nest = kind == FusionKind::kElementwise || kind == FusionKind::kRows;
      for (OpId op : groups_.groups[group].ops) {
        op_clusters.of_op[op.index] = groups_.groups[root_of(group)].ops.front().index;
        if (is_loop_nest)
          op_clusters.loop_nest_of_op[op.index] = groups_.groups[group].ops.front().index;
      }
    }
    return op_clusters;
  }

 private:
  bool has_constraint(const SearchConstraints& constraints, FusionGroupIndex group) const {
    return std::ranges::any_of(groups_.groups[group].ops, [&](OpId op) {
      return constraints.ops.contains(op.index) ||
             std::ranges::any_of(graph_.op(op).outputs, [&](ValueId output) {
               return constraints.canonical_placements.contains(output.index);
             });
    });
  }

  Role role_of(FusionGroupIndex group) const {
    return graph_.op(groups_.groups[group].ops.front()).role;
  }

  bool is_root(FusionGroupIndex group) const {
    const GroupEdges& edges = edges_[group];
    if (is_constrained_[group] || edges.is_result || edges.readers.size() != 1 ||
        edges.producers.size() > 1)
      return true;
    const FusionGroupIndex reader = *edges.readers.begin();
    return is_constrained_[reader] || role_of(reader) != role_of(group) ||
           (edges.producers.size() == 1 && edges.bytes_out < edges.bytes_in) ||
           (computes_[reader] && computes_after(group));
  }

  /// Does a group of the op cluster compute, up to this one? Moves read one group at most.
  bool computes_after(FusionGroupIndex group) const {
    while (!computes_[group]) {
      if (edges_[group].producers.empty()) return false;
      group = *edges_[group].producers.begin();
      if (is_root(group)) return false;
    }
    return true;
  }

  FusionGroupIndex root_of(FusionGroupIndex group) {
    std::vector<FusionGroupIndex> path;
    while (root_[group].is_none() && !is_root(group)) {
      path.push_back(group);
      group = *edges_[group].readers.begin();
    }
    const FusionGroupIndex root = root_[group].is_none() ? group : root_[group];
    root_[group] = root;
    for (FusionGroupIndex passed : path) root_[passed] = root;
    return root;
  }

  const Graph& graph_;
  const FusionGroups groups_;
  const Edges edges_;
  IndexedVector<FusionGroupIndex, bool> is_constrained_, computes_;
  IndexedVector<FusionGroupIndex, FusionGroupIndex> root_;  // of each group that was asked for
};

/// Ops are together when those that share their decisions are, and no two of them share one.
std::vector<int> divided_by_shared_decisions(const std::vector<int>& parts,
                                             const SharedDecisions& shared_decisions) {
  std::map<int, std::vector<int>> parts_of_class;  // by first op, of its members in order
  for (int i = 0; i < std::ssize(parts); ++i)
    parts_of_class[shared_decisions.of_op[i]].push_back(parts[i]);
  std::map<std::tuple<int, std::vector<int>, int>, int> first;
  std::map<std::pair<int, int>, int> seen;  // by part and class, the members so far
  std::vector<int> divided;
  for (int i = 0; i < std::ssize(parts); ++i) {
    const int tie = shared_decisions.of_op[i];
    const int place = seen[{parts[i], tie}]++;
    divided.push_back(
        parts[i] < 0 ? parts[i]
                     : first.try_emplace({parts[i], parts_of_class[tie], place}, i).first->second);
  }
  return divided;
}

}  // namespace

OpClusters single_ops(const Graph& graph) {
  OpClusters op_clusters;
  op_clusters.of_op.resize(graph.ops().size());
  std::iota(op_clusters.of_op.begin(), op_clusters.of_op.end(), 0);
  op_clusters.loop_nest_of_op.resize(graph.ops().size(), kNoLoopNest);
  return op_clusters;
}

OpClusters op_clusters_of(const Graph& graph, const SharedDecisions& shared_decisions,
                          const SearchConstraints& constraints) {
  OpClusters op_clusters = OpClusterSearch(graph, constraints).run();
  op_clusters.of_op = divided_by_shared_decisions(op_clusters.of_op, shared_decisions);
  op_clusters.loop_nest_of_op =
      divided_by_shared_decisions(op_clusters.loop_nest_of_op, shared_decisions);
  std::map<std::pair<int, int>, int> first;  // a nest does not leave its op cluster
  for (int i = 0; i < std::ssize(op_clusters.of_op); ++i)
    if (int& loop_nest = op_clusters.loop_nest_of_op[i]; loop_nest != kNoLoopNest)
      loop_nest = first.try_emplace({loop_nest, op_clusters.of_op[i]}, i).first->second;
  return op_clusters;
}

std::vector<std::string> to_text(const Graph& graph, const OpClusters& op_clusters) {
  std::map<int, std::string> names;
  std::map<int, int> sizes;
  for (int i = 0; i < std::ssize(op_clusters.of_op); ++i) {
    std::string& text = names[op_clusters.of_op[i]];
    text += (text.empty() ? "" : " ") + graph.ops()[i].name;
    ++sizes[op_clusters.of_op[i]];
  }
  std::vector<std::string> list;
  for (const auto& [op_cluster, text] : names)
    if (sizes[op_cluster] > 1) list.push_back(text);
  return list;
}

}  // namespace tessera
