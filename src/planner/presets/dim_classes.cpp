#include "planner/presets/dim_classes.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/ops/parameter_roles.h"

namespace tessera {
namespace {

/// Sets of numbers that are joined pair by pair.
class DisjointSets {
 public:
  explicit DisjointSets(int count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }
  int find(int item) {
    while (parents_[item] != item) item = parents_[item] = parents_[parents_[item]];
    return item;
  }
  void join(int a, int b) { parents_[std::max(find(a), find(b))] = std::min(find(a), find(b)); }

 private:
  std::vector<int> parents_;
};

bool is_forward(const Op& op) {
  return op.role == Role::kForward;
}

double elements(const Graph& graph, ValueId value) {
  return static_cast<double>(element_count(graph.type(value).shape));
}

bool is_reduction(const Factor& factor) {
  return factor.kind == FactorKind::kReduction || factor.kind == FactorKind::kMaskedReduction;
}

/// May an axis divide the factor? Its least part may be all of a dim: the last one of its
/// positions.
bool is_divisible(const Factor& factor) {
  return factor.kind != FactorKind::kWhole && factor.extent > 1;
}

bool has_reduction(const ShardingRule& rule) {
  return std::any_of(rule.factors.begin(), rule.factors.end(), is_reduction);
}

/// A product or a convolution: it reduces over some operands' common factor.
bool is_product(const ShardingRule& rule) {
  return rule.inputs.size() > 1 &&
         std::any_of(rule.factors.begin(), rule.factors.end(),
                     [](const Factor& factor) { return factor.kind == FactorKind::kReduction; });
}

class ClassBuilder {
 public:
  explicit ClassBuilder(const Graph& graph)
      : graph_(graph), sets_(number_dims()), depends_(depend_on_parameters(graph)) {
    rules_.resize(graph.ops().size());
    views_.resize(graph.ops().size());
    for (size_t i = 0; i < rules_.size(); ++i) {
      const Op& op = graph.ops()[i];
      if (!is_forward(op)) continue;
      views_[i].emplace(view(graph, op));
      rules_[i] = cache_.find(op.kind, *views_[i]);
    }
  }

  DimClasses run() {
    for_each_op(
        [&](OpId, const Op& op, const OpView&, const ShardingRule& rule) { join(op, rule); });
    collect();
    for_each_op([&](OpId id, const Op& op, const OpView& shape, const ShardingRule& rule) {
      measure(id, op, shape, rule);
    });
    for (DimClassIndex i : result_.classes.indices()) leave_out_state(i);
    return std::move(result_);
  }

 private:
  int number_dims() {
    int count = 0;
    for (const Value& value : graph_.values()) {
      first_.push_back(count);
      count += value.type.shape.size();
    }
    return count;
  }

  template <class Visit>
  void for_each_op(const Visit& visit) {
    for (size_t i = 0; i < graph_.ops().size(); ++i)
      if (is_forward(graph_.ops()[i]))
        visit(OpId{static_cast<int>(i)}, graph_.ops()[i], *views_[i], *rules_[i]);
  }

  /// Calls visit(value, dim, factor) for each dim of an operand that has one.
  template <class Visit>
  static void for_each_dim(const Op& op, const ShardingRule& rule, const Visit& visit) {
    for (const bool is_input : {true, false}) {
      const std::vector<OperandFactors>& operands = is_input ? rule.inputs : rule.outputs;
      const std::vector<ValueId>& values = is_input ? op.inputs : op.outputs;
      for (size_t i = 0; i < operands.size(); ++i)
        for (int dim = 0; dim < std::ssize(operands[i]); ++dim)
          if (operands[i][dim].factor >= 0)
            visit(ValueDim{values[i], dim}, operands[i][dim].factor);
    }
  }

  /// Calls visit(value, dim, factor) for each further factor of a dim that merges several.
  template <class Visit>
  static void for_each_merged_dim(const Op& op, const ShardingRule& rule, const Visit& visit) {
    for (const bool is_input : {true, false}) {
      const std::vector<OperandFactors>& operands = is_input ? rule.inputs : rule.outputs;
      const std::vector<ValueId>& values = is_input ? op.inputs : op.outputs;
      for (size_t i = 0; i < operands.size(); ++i)
        for (int dim = 0; dim < std::ssize(operands[i]); ++dim)
          for (const DimFactor& other : operands[i][dim].others)
            visit(ValueDim{values[i], dim}, other.factor);
    }
  }

  void need_whole(ValueDim member, DimClassIndex index) {
    result_.classes[index].is_needed_whole = true;
    add_exchange(result_.classes[index], member.value);
  }

  int number(ValueDim member) const { return first_[member.value.index] + member.dim; }

  void join(const Op& op, const ShardingRule& rule) {
    std::vector<int> of_factor(rule.factors.size(), -1);
    for_each_dim(op, rule, [&](ValueDim member, int factor) {
      if (!is_divisible(rule.factors[factor])) return;
      if (of_factor[factor] < 0) of_factor[factor] = number(member);
      sets_.join(of_factor[factor], number(member));
    });
  }

  void collect() {
    std::vector<DimClassIndex> of_set;
    for (int i = 0; i < std::ssize(graph_.values()); ++i) {
      std::vector<DimClassIndex>& of_dims = result_.of_value.emplace_back();
      for (int dim = 0; dim < graph_.values()[i].type.shape.size(); ++dim) {
        const auto set = static_cast<size_t>(sets_.find(number({{i}, dim})));
        if (of_set.size() <= set) of_set.resize(set + 1);
        if (of_set[set].is_none()) {
          of_set[set] = DimClassIndex(static_cast<int>(result_.classes.size()));
          result_.classes.push_back({});
        }
        result_.classes[of_set[set]].members.push_back({{i}, dim});
        of_dims.push_back(of_set[set]);
      }
    }
  }

  /// Adds what an op says about the classes of its factors.
  void measure(OpId op_id, const Op& op, const OpView& shape, const ShardingRule& rule) {
    std::vector<DimClassIndex> of_factor(rule.factors.size());
    for_each_dim(op, rule, [&](ValueDim member, int factor) {
      if (!is_divisible(rule.factors[factor]))
        need_whole(member, result_.at(member));
      else
        of_factor[factor] = result_.at(member);
    });
    for_each_merged_dim(op, rule, [&](ValueDim member, int factor) {
      if (!of_factor[factor].is_none()) need_whole(member, of_factor[factor]);
    });
    const double flops = shape.definition->work(shape).flops.value();
    if (is_product(rule)) result_.product_flops += Flops(flops);
    std::set<DimClassIndex> seen;
    for (int i = 0; i < std::ssize(of_factor); ++i) {
      if (of_factor[i].is_none()) continue;
      DimClass& found = result_.classes[of_factor[i]];
      const int64_t extent = rule.factors[i].extent;
      found.extent = found.extent == 0 ? extent : std::min(found.extent, extent);
      found.looks_up = found.looks_up || rule.factors[i].kind == FactorKind::kMaskedReduction;
      if (seen.insert(of_factor[i]).second) {
        found.flops += Flops(flops);
        if (is_product(rule)) found.product_flops += Flops(flops);
      }
      measure_exchanges(op, rule, i, found);
      if (!has_weight(op, rule, i)) continue;
      found.has_weights = true;
      found.weight_flops += Flops(flops);
      found.weight_ops.push_back(op_id);
      for (int output = 0; output < std::ssize(op.outputs); ++output)
        if (is_reduction(rule.factors[i]) && rule.reduces(i, output))
          found.sums.push_back(op.outputs[output]);
    }
  }

  /// Dividing `factor` makes results without it partial, and the gradients of operands without it.
  void measure_exchanges(const Op& op, const ShardingRule& rule, int factor, DimClass& found) {
    for (int i = 0; i < std::ssize(op.outputs); ++i)
      if (is_reduction(rule.factors[factor]) && rule.reduces(factor, i))
        found.exchanged += elements(graph_, op.outputs[i]);
    for (int i = 0; i < std::ssize(op.inputs); ++i)
      if (!has_factor(rule.inputs[i], factor) && depends_[op.inputs[i].index])
        add_exchange(found, op.inputs[i]);
  }

  /// Several readers of a value have one exchange.
  void add_exchange(DimClass& found, ValueId value) {
    if (exchanged_.insert({&found, value}).second) found.exchanged += elements(graph_, value);
  }

  bool has_weight(const Op& op, const ShardingRule& rule, int factor) const {
    if (!has_reduction(rule)) return false;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Variable* variable = variable_after(graph_, op.inputs[i]);
      if (variable && variable->trainable && has_factor(rule.inputs[i], factor)) return true;
    }
    return false;
  }

  /// Takes the dims over which ops reduce out of a class that has another dim of the parameter.
  void leave_out_state(DimClassIndex index) {
    DimClass& found = result_.classes[index];
    std::vector<ValueDim> reduced;
    for (const ValueDim& member : found.members)
      if (variable_after(graph_, member.value) && is_reduced(member)) reduced.push_back(member);
    const auto has_other = [&](ValueDim member) {
      const std::vector<DimClassIndex>& dims = result_.of_value[member.value.index];
      return std::count(dims.begin(), dims.end(), index) > 1;
    };
    found.is_recurrent = std::any_of(reduced.begin(), reduced.end(), has_other);
    if (!found.is_recurrent) return;
    for (const ValueDim& member : reduced) {
      std::erase(found.members, member);
      result_.of_value[member.value.index][member.dim] = {};
    }
  }

  bool is_reduced(ValueDim member) const {
    for (OpId user : graph_.value(member.value).users) {
      const Op& op = graph_.op(user);
      if (!is_forward(op)) continue;
      if (op.kind == "cast" && is_reduced({op.outputs.front(), member.dim})) return true;
      const ShardingRule& rule = *rules_[user.index];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const int factor =
            op.inputs[i] == member.value ? rule.inputs[i][member.dim].factor : int{-1};
        if (factor >= 0 && is_reduction(rule.factors[factor])) return true;
      }
    }
    return false;
  }

  const Graph& graph_;
  std::vector<int> first_;  // by value: the number of its dim 0
  DisjointSets sets_;
  std::vector<bool> depends_;
  RuleCache cache_{catalogue_rule};
  std::vector<std::optional<OpView>> views_;  // by op; those of the forward

  std::vector<RulePtr> rules_;
  std::set<std::pair<const DimClass*, ValueId>> exchanged_;
  DimClasses result_;
};

}  // namespace

std::vector<bool> depend_on_parameters(const Graph& graph) {
  std::vector<bool> depends(graph.values().size());
  for (const Variable& variable : graph.variables())
    depends[variable.value.index] = variable.trainable;
  for (const Op& op : graph.ops()) {
    if (!is_forward(op)) continue;
    const bool any = std::any_of(op.inputs.begin(), op.inputs.end(),
                                 [&](ValueId input) { return depends[input.index]; });
    for (ValueId output : op.outputs) depends[output.index] = any;
  }
  return depends;
}

bool has_input(const Graph& graph, const DimClass& dim) {
  return std::any_of(dim.members.begin(), dim.members.end(),
                     [&](const ValueDim& member) { return graph.is_input(member.value); });
}

DimClasses dim_classes_of(const Graph& graph) {
  return ClassBuilder(graph).run();
}

}  // namespace tessera
