#include "planner/placement/internal/op_cluster_reads.h"

#include <algorithm>
#include <set>

namespace tessera {

OpClusterReads::OpClusterReads(const Graph& graph, const SharedDecisions& shared_decisions,
                               OpClusters op_clusters)
    : graph_(graph),
      shared_decisions_(shared_decisions),
      op_clusters_(std::move(op_clusters)),
      members_(graph.ops().size()),
      is_result_(graph.values().size(), false) {
  for (const auto& [name, value] : graph.outputs()) is_result_[value.index] = true;
  for (const Variable& variable : graph.variables())
    if (variable.next) is_result_[variable.next->index] = true;
  std::map<int, std::vector<OpId>> list;
  for (int i = 0; i < std::ssize(graph.ops()); ++i) {
    members_[shared_decisions.of_op[i]].push_back(i);
    for (ValueId input : graph.ops()[i].inputs)
      first_in_loop_nest_.try_emplace({op_clusters_.loop_nest_of_op[i], input.index}, OpId{i});
    if (shared_decisions.is_first(OpId{i})) list[op_clusters_.of_op[i]].push_back(OpId{i});
  }
  for (auto& [op_cluster, ops] : list) of_op_clusters_.push_back(std::move(ops));
}

OpClusterReads::Kind OpClusterReads::kind(OpId op, int input) const {
  const std::vector<ValueId>& inputs = graph_.op(op).inputs;
  const ValueId value = inputs[input];
  const OpId producer = graph_.value(value).producer;
  if (producer.index >= 0 && op_clusters_.of_op[producer.index] == op_clusters_.of_op[op.index])
    return Kind::kMade;
  if (op_clusters_.loop_nest_of_op[op.index] == kNoLoopNest) return Kind::kAlone;
  const bool is_first =
      first_reader(op, input) == op && std::ranges::find(inputs, value) - inputs.begin() == input;
  return is_first ? Kind::kAlone : Kind::kGiven;
}

std::vector<OpClusterLink> OpClusterReads::links_of(const std::vector<OpId>& ops) const {
  const auto number_of = [&](OpId op) {
    const OpId first{shared_decisions_.of_op[op.index]};
    return static_cast<int>(std::ranges::find(ops, first) - ops.begin());
  };
  std::set<OpClusterLink> links;
  for (OpId first : ops)
    for (int member : members_[first.index]) {
      const Op& op = graph_.ops()[member];
      for (int k = 0; k < std::ssize(op.inputs); ++k) {
        const Kind read = kind(OpId{member}, k);
        if (read == Kind::kAlone) continue;
        OpClusterLink link{.to = number_of(first),
                           .to_slot = static_cast<int>(op.outputs.size()) + k,
                           .kind = OpClusterLink::Kind::kReads};
        OpId from = graph_.value(op.inputs[k]).producer;
        if (read == Kind::kGiven) {
          link.kind = OpClusterLink::Kind::kAgrees;
          from = first_reader(OpId{member}, k);
        }
        const Op& other = graph_.op(from);
        const std::vector<ValueId>& list = read == Kind::kMade ? other.outputs : other.inputs;
        link.from = number_of(from);
        link.from_slot = static_cast<int>(std::ranges::find(list, op.inputs[k]) - list.begin() +
                                          (read == Kind::kMade ? 0 : std::ssize(other.outputs)));
        links.insert(link);
      }
    }
  return {links.begin(), links.end()};
}

std::vector<std::vector<bool>> OpClusterReads::boundary_of(const std::vector<OpId>& ops) const {
  std::vector<std::vector<bool>> boundary;
  for (OpId first : ops) {
    const Op& like = graph_.op(first);
    std::vector<bool>& slots = boundary.emplace_back(like.outputs.size() + like.inputs.size());
    for (int member : members_[first.index]) {
      const Op& op = graph_.ops()[member];
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        const std::vector<OpId>& users = graph_.value(op.outputs[k]).users;
        const bool leaves = std::ranges::any_of(users, [&](OpId user) {
          return op_clusters_.of_op[user.index] != op_clusters_.of_op[member];
        });
        if (leaves || is_result_[op.outputs[k].index]) slots[k] = true;
      }
      for (int k = 0; k < std::ssize(op.inputs); ++k)
        if (kind(OpId{member}, k) == Kind::kAlone) slots[op.outputs.size() + k] = true;
    }
  }
  return boundary;
}

}  // namespace tessera
