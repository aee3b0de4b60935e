#include "planner/placement/internal/memory_moments.h"

#include <algorithm>

#include "ir/ops/operator.h"
#include "ir/ops/operator_set.h"
#include "kernels/bind.h"
#include "sharding/propagation/kernel_price.h"

namespace tessera {
namespace {

std::vector<std::vector<int>> members_of(const std::vector<int>& shared_decisions) {
  std::vector<std::vector<int>> members(shared_decisions.size());
  for (int i = 0; i < std::ssize(shared_decisions); ++i) members[shared_decisions[i]].push_back(i);
  return members;
}

}  // namespace

MemoryMoments::MemoryMoments(const Graph& graph, const OpRules& rules,
                             const SharedDecisions& shared_decisions)
    : graph_(graph),
      ops_(members_of(shared_decisions.of_op)),
      values_(members_of(shared_decisions.of_value)) {
  const int count = static_cast<int>(graph.ops().size());
  std::vector<bool> is_moment(count, false);
  for (const std::vector<int>& members : ops_)
    if (!members.empty()) is_moment[members.front()] = is_moment[members.back()] = true;
  begins_.assign(1, 0);
  for (int i = 0; i < count; ++i) begins_.push_back(begins_.back() + is_moment[i]);
  for (int i = 0; i < std::ssize(graph.values()); ++i)
    lifetimes_.push_back(lifetime_of(ValueId{i}));
  const std::shared_ptr<const KernelSet> own = own_kernels(graph);
  for (int first = 0; first < count; ++first) {
    if (ops_[first].empty()) continue;
    const int slot = overwritten(OpId{first}, rules[first], own.get());
    if (slot < 0) continue;
    for (int member : ops_[first]) {
      Lifetime& lifetime = lifetimes_[graph.op(OpId{member}).inputs[slot].index];
      if (lifetime.last == member) --lifetime.last;
    }
  }
}

Lifetime MemoryMoments::lifetime_of(ValueId value) const {
  const Value& known = graph_.value(value);
  if (graph_.ops().empty()) return {0, -1};
  Lifetime lifetime{known.producer.index, known.producer.index};
  if (lifetime.first < 0) lifetime = {first_reader(value), first_reader(value)};
  for (OpId user : known.users) lifetime.last = std::max(lifetime.last, user.index);
  for (const auto& [name, result] : graph_.outputs())
    if (result == value) lifetime.last = static_cast<int>(graph_.ops().size()) - 1;
  return lifetime;
}

Lifetime MemoryMoments::lifetime(ValueId value, Role role) const {
  Lifetime lifetime{static_cast<int>(graph_.ops().size()), -1};
  for (OpId user : graph_.value(value).users) {
    if (graph_.op(user).role != role) continue;
    lifetime.first = std::min(lifetime.first, user.index);
    lifetime.last = std::max(lifetime.last, user.index);
  }
  return lifetime;
}

int MemoryMoments::first_reader(ValueId value) const {
  const Value& known = graph_.value(value);
  if (known.users.empty()) return std::max(known.producer.index, 0);
  return std::ranges::min(known.users, {}, &OpId::index).index;
}

int MemoryMoments::overwritten(OpId id, const ShardingRule& rule, const KernelSet* own) const {
  const Op& op = graph_.op(id);
  std::vector<int> inputs;
  for (ValueId input : op.inputs) inputs.push_back(input.index);
  std::string kernel;
  for (int k = 0; k < std::ssize(op.inputs); ++k) {
    const ValueId input = op.inputs[k];
    if (graph_.value(input).producer.index < 0 || lifetimes_[input.index].last != id.index ||
        !(graph_.type(input) == graph_.type(op.outputs.front())))
      continue;
    if (kernel.empty()) kernel = undivided_kernel(view(graph_, op), rule);
    if (!kernel.empty() && may_write_over(kernel, inputs, input.index, own)) return k;
  }
  return -1;
}

std::map<MemoryMoments::Span, int64_t> MemoryMoments::held(
    const std::vector<Lifetime>& lifetimes) const {
  std::map<Span, int64_t> spans;
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.last < lifetime.first) continue;
    const Span span{begins_[lifetime.first], begins_[lifetime.last + 1]};
    if (span.first < span.second) ++spans[span];
  }
  return spans;
}

solver::Interval MemoryMoments::common(const std::vector<Lifetime>& lifetimes) const {
  Lifetime all{0, static_cast<int>(begins_.size()) - 2};
  for (const Lifetime& lifetime : lifetimes)
    all = {std::max(all.first, lifetime.first), std::min(all.last, lifetime.last)};
  if (all.last < all.first) return {};
  return {begins_[all.first], begins_[all.last + 1]};
}

}  // namespace tessera
