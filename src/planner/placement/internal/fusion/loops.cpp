#include "planner/placement/internal/fusion/loops.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ir/graph/classes.h"
#include "ir/ops/operator.h"
#include "planner/placement/search_policy.h"

namespace tessera {
namespace {

using LoopKind = OpLoops::Kind;

/// The factor of each dim, when each has just one and all of them differ.
std::optional<std::vector<int>> plain_factors(const OperandFactors& operand) {
  std::vector<int> list;
  for (const DimFactor& dim : operand) {
    if (dim.factor < 0 || dim.unit != 1 || dim.window || dim.chunks != 1 || !dim.others.empty() ||
        std::ranges::count(list, dim.factor))
      return std::nullopt;
    list.push_back(dim.factor);
  }
  return list;
}

bool are_plain(const std::vector<std::optional<std::vector<int>>>& operands) {
  return std::ranges::all_of(operands, [](const auto& operand) { return operand.has_value(); });
}

bool is_subsequence(const std::vector<int>& part, const std::vector<int>& all) {
  auto at = all.begin();
  for (int factor : part) {
    at = std::find(at, all.end(), factor);
    if (at == all.end()) return false;
    ++at;
  }
  return true;
}

bool is_elementwise(const ShardingRule& rule, const OpLoops& loops) {
  if (!are_plain(loops.inputs) || !are_plain(loops.outputs)) return false;
  for (const Factor& factor : rule.factors)
    if (factor.kind != FactorKind::kParallel) return false;
  for (const auto& output : loops.outputs)
    if (*output != *loops.outputs.front() || std::ssize(*output) != loops.count) return false;
  return std::ranges::all_of(loops.inputs, [&](const auto& input) {
    return is_subsequence(*input, *loops.outputs.front());
  });
}

bool is_row_reduction(const ShardingRule& rule, const OpLoops& loops) {
  if (loops.inputs.size() != 1 || loops.outputs.size() != 1 || !are_plain(loops.inputs) ||
      !are_plain(loops.outputs) || std::ssize(*loops.inputs.front()) != loops.count)
    return false;
  const std::vector<int>& all = *loops.inputs.front();
  const std::vector<int>& rows = *loops.outputs.front();
  if (rows.size() >= all.size() || !std::equal(rows.begin(), rows.end(), all.begin())) return false;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_reduced = i >= rows.size();
    const FactorKind kind = rule.factors[all[i]].kind;
    if (kind != (is_reduced ? FactorKind::kReduction : FactorKind::kParallel)) return false;
  }
  return true;
}

bool is_product(const ShardingRule& rule, const OpLoops& loops) {
  if (loops.outputs.size() != 1 || !loops.outputs.front()) return false;
  const auto is_read = [&](int factor) {
    return std::ranges::any_of(rule.inputs, [&](const auto& in) { return has_factor(in, factor); });
  };
  if (!std::ranges::all_of(*loops.outputs.front(), is_read)) return false;  // scatters
  for (int factor = 0; factor < loops.count; ++factor) {
    const auto readers =
        std::ranges::count_if(rule.inputs, [&](const auto& in) { return has_factor(in, factor); });
    if (rule.factors[factor].kind == FactorKind::kReduction && readers > 1) return true;
  }
  return false;
}

bool is_built_in(const Operator* definition) {
  const std::span<const Operator* const> all = all_operators();
  return std::ranges::find(all, definition) != all.end();
}

/// The loops of several ops, as one set: a dim of a value is one loop of all ops that read or make
/// it. What a product reads from outside says nothing of its loops: x x^T reads x twice.
class JoinedLoops {
 public:
  JoinedLoops(const Graph& graph, const std::vector<OpLoops>& loops, const std::vector<int>& ops)
      : loops_(loops) {
    int count = 0;
    for (int op : ops) {
      first_[op] = count;
      count += loops[op].count;
    }
    parent_.resize(count);
    std::iota(parent_.begin(), parent_.end(), 0);
    for (int i : ops) {
      const Op& op = graph.ops()[i];
      for (size_t k = 0; k < op.inputs.size(); ++k)
        if (!loops[i].has(LoopKind::kProduct) || is_made_by(graph, op.inputs[k], ops))
          join(i, op.inputs[k], loops[i].inputs[k]);
      for (size_t k = 0; k < op.outputs.size(); ++k) join(i, op.outputs[k], loops[i].outputs[k]);
    }
  }

  std::vector<int> at(int op, const std::vector<int>& factors) {
    std::vector<int> list;
    for (int factor : factors) list.push_back(find(first_[op] + factor));
    return list;
  }

  /// Are the loops of an op one each?
  bool keeps_apart(int op) {
    std::set<int> seen;
    for (int factor = 0; factor < loops_[op].count; ++factor)
      seen.insert(find(first_[op] + factor));
    return std::ssize(seen) == loops_[op].count;
  }

 private:
  static bool is_made_by(const Graph& graph, ValueId value, const std::vector<int>& ops) {
    return std::ranges::binary_search(ops, graph.value(value).producer.index);
  }

  int find(int loop) {
    while (parent_[loop] != loop) loop = parent_[loop] = parent_[parent_[loop]];
    return loop;
  }

  void join(int op, ValueId value, const std::optional<std::vector<int>>& factors) {
    if (!factors) return;
    const auto [known, is_new] = of_value_.try_emplace(value.index, *factors);
    if (is_new) {
      for (int& loop : known->second) loop += first_[op];
      return;
    }
    for (size_t dim = 0; dim < factors->size(); ++dim)
      parent_[find(first_[op] + (*factors)[dim])] = find(known->second[dim]);
  }

  const std::vector<OpLoops>& loops_;
  std::map<int, int> first_;  // by op
  std::map<int, std::vector<int>> of_value_;
  std::vector<int> parent_;
};

/// One set of ops that is to be one kernel.
class Fused {
 public:
  Fused(const Graph& graph, const std::vector<OpLoops>& all, const std::vector<int>& ops)
      : graph_(graph), all_(all), ops_(ops), joined_(graph, all, ops) {}

  std::optional<FusedLoops> run() {
    if (!std::ranges::all_of(ops_, [&](int op) { return joined_.keeps_apart(op); })) return {};
    for (int op : ops_)
      if (all_[op].expands && !may_expand(op)) return {};
    const auto product = find(LoopKind::kProduct);
    if (product == ops_.end()) return loop_nest();
    return with_product(*product);
  }

 private:
  std::vector<int>::const_iterator find(LoopKind kind) const {
    return std::ranges::find_if(ops_, [&](int op) { return all_[op].has(kind); });
  }
  bool contains(OpId op) const { return std::ranges::binary_search(ops_, op.index); }

  bool is_read_here_only(int op) const {
    for (ValueId output : graph_.ops()[op].outputs) {
      const std::vector<OpId>& users = graph_.value(output).users;
      if (!std::ranges::all_of(users, [&](OpId user) { return contains(user); })) return false;
      for (const auto& [name, result] : graph_.outputs())
        if (result == output) return false;
    }
    return true;
  }

  /// What an op computes from elements of its own may be stored; a broadcast that the backward
  /// reads is.
  bool may_expand(int op) const {
    const Op& item = graph_.ops()[op];
    const bool reads_made = std::ranges::any_of(item.inputs, [&](ValueId input) {
      const OpId producer = graph_.value(input).producer;
      return producer.index >= 0 && !all_[producer.index].expands;
    });
    if (ops_.size() == 1 || reads_made) return true;
    for (ValueId output : item.outputs)
      for (OpId user : graph_.value(output).users)
        if (graph_.op(user).role == item.role && !contains(user)) return false;
    return true;
  }

  /// Element-wise ops over the result of the product, or over one of its operands.
  std::optional<FusedLoops> with_product(int product) {
    int over_result = 0, over_operand = 0;
    const std::vector<int> result = joined_.at(product, all_[product].space);
    for (int op : ops_) {
      if (op == product) continue;
      if (!all_[op].has(LoopKind::kElementwise)) return {};
      const std::vector<int> space = joined_.at(op, all_[op].space);
      if (space == result) {
        ++over_result;
        continue;
      }
      const bool is_operand = std::ranges::any_of(all_[product].inputs, [&](const auto& input) {
        return input && space == joined_.at(product, *input);
      });
      if (!is_operand || all_[op].samples || !is_read_here_only(op)) return {};
      ++over_operand;
    }
    return FusedLoops{FusionKind::kProduct, "a product, with " + std::to_string(over_result) +
                                                " element-wise ops over its result and " +
                                                std::to_string(over_operand) +
                                                " over its operands"};
  }

  /// The loops of all ops are all loops of the nest, or those of its rows.
  std::optional<FusedLoops> loop_nest() {
    std::vector<int> all, rows;
    int reductions = 0;
    for (int op : ops_) {
      const std::vector<int> space = joined_.at(op, all_[op].space);
      if (space.size() > all.size() || op == ops_.front()) all = space;
      if (!all_[op].has(LoopKind::kRowReduction)) continue;
      const std::vector<int> left(space.begin(), space.end() - all_[op].reduced);
      if (reductions++ > 0 && left != rows) return {};
      rows = left;
    }
    for (int op : ops_) {
      const std::vector<int> space = joined_.at(op, all_[op].space);
      if (space == all) continue;
      if (reductions == 0 || !all_[op].has(LoopKind::kElementwise) || space != rows) return {};
    }
    if (reductions > 0 && rows.empty() && reads_results_over(all)) return {};
    const std::string shape = to_text(all_elements());
    if (reductions == 0) return FusedLoops{FusionKind::kElementwise, "element-wise over " + shape};
    return FusedLoops{FusionKind::kRows, std::to_string(reductions) + " reductions over the last " +
                                             std::to_string(all.size() - rows.size()) +
                                             " dims of " + shape + ", and element-wise ops"};
  }

  /// Does an op that runs over all loops read what was made over the rows?
  bool reads_results_over(const std::vector<int>& all) {
    const auto runs_over_all = [&](int op) { return joined_.at(op, all_[op].space) == all; };
    for (int op : ops_)
      for (ValueId input : graph_.ops()[op].inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer.index < 0 || !contains(producer) || !runs_over_all(op)) continue;
        if (!runs_over_all(producer.index) || all_[producer.index].has(LoopKind::kRowReduction))
          return true;
      }
    return false;
  }

  /// The operand or the result that has all loops.
  TensorType all_elements() const {
    TensorType largest;
    for (int i : ops_) {
      const Op& op = graph_.ops()[i];
      const bool reduces = all_[i].has(LoopKind::kRowReduction);
      const TensorType& type = graph_.type(reduces ? op.inputs.front() : op.outputs.front());
      if (i == ops_.front() || type.shape.size() > largest.shape.size()) largest = type;
    }
    return largest;
  }

  const Graph& graph_;
  const std::vector<OpLoops>& all_;
  const std::vector<int>& ops_;
  JoinedLoops joined_;
};

}  // namespace

OpLoops loops_of(const Graph& graph, const Op& op) {
  OpLoops loops;
  const OpView op_view = view(graph, op);
  const Operator& definition = *op_view.definition;
  if (!op.regions.empty() || !definition.rule || !is_built_in(&definition)) return loops;
  const ShardingRule rule = definition.rule(op_view);
  loops.count = static_cast<int>(rule.factors.size());
  for (const OperandFactors& input : rule.inputs) loops.inputs.push_back(plain_factors(input));
  for (const OperandFactors& output : rule.outputs) loops.outputs.push_back(plain_factors(output));
  loops.samples = op.attributes.has(kRandomKey);
  if (is_elementwise(rule, loops)) {
    loops.kind = LoopKind::kElementwise;
    loops.space = *loops.outputs.front();
    loops.expands = !loops.samples && std::ranges::none_of(loops.inputs, [&](const auto& input) {
      return *input == loops.space;
    });
  } else if (is_row_reduction(rule, loops)) {
    loops.kind = LoopKind::kRowReduction;
    loops.space = *loops.inputs.front();
    loops.reduced = static_cast<int>(loops.space.size() - loops.outputs.front()->size());
  } else if (is_product(rule, loops)) {
    loops.kind = LoopKind::kProduct;
    loops.space = *loops.outputs.front();
  }
  return loops;
}

std::optional<FusedLoops> fused_loops(const Graph& graph, const std::vector<OpLoops>& loops,
                                      const std::vector<int>& ops) {
  const auto count = [&](LoopKind kind) {
    return std::ranges::count_if(ops, [&](int op) { return loops[op].has(kind); });
  };
  if (ops.size() == 1 && loops[ops.front()].has(LoopKind::kOther))
    return FusedLoops{FusionKind::kAlone, "its kernel is its own"};
  if (ops.size() > kSearchPolicy.ops_of_a_kernel || count(LoopKind::kOther) > 0 ||
      count(LoopKind::kProduct) > 1)
    return {};
  return Fused(graph, loops, ops).run();
}

}  // namespace tessera
