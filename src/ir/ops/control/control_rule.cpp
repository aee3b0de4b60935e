// The sharding rule of an op with regions, derived from the rules of the ops inside.
#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "ir/ops/control/control.h"
#include "ir/ops/operator_rule.h"

namespace tessera {
namespace {

/// A value of a region.
struct Place {
  int region;
  ValueId value;
};

/// Sets of dims of values of regions that are divided together.
class DimClasses {
 public:
  explicit DimClasses(const std::vector<GraphPtr>& regions) : regions_(regions) {
    for (size_t r = 0; r < regions.size(); ++r) {
      first_.emplace_back();
      for (size_t v = 0; v < regions[r]->values().size(); ++v) {
        first_.back().push_back(static_cast<int>(parent_.size()));
        const Shape& shape = regions[r]->values()[v].type.shape;
        for (int d = 0; d < shape.size(); ++d) add_node(static_cast<int>(values_));
        ++values_;
      }
    }
  }

  int node(const Place& place, int dim) const {
    return first_[place.region][place.value.index] + dim;
  }
  int root(int node) {
    while (parent_[node] != node) {
      parent_[node] = parent_[parent_[node]];
      node = parent_[node];
    }
    return node;
  }

  /// Ties two dims, unless two dims of one value would be divided together.
  void tie(int a, int b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    std::set<int>&small = members_[b], &large = members_[a];
    for (int value : small)
      if (large.contains(value)) return;
    large.merge(small);
    parent_[b] = a;
    parts_[a] = std::min(parts_[a], parts_[b]);
    whole_[a] = whole_[a] || whole_[b];
  }

  void tie_values(const Place& a, const Place& b) {
    for (int d = 0; d < regions_[a.region]->type(a.value).shape.size(); ++d)
      tie(node(a, d), node(b, d));
  }

  void cut_at_most(int node, int64_t parts) {
    int64_t& largest = parts_[root(node)];
    largest = std::min(largest, parts);
  }
  void keep_whole(int node) { whole_[root(node)] = true; }

  int64_t parts(int node) { return parts_[root(node)]; }
  bool is_whole(int node) { return whole_[root(node)]; }

 private:
  void add_node(int value) {
    parent_.push_back(static_cast<int>(parent_.size()));
    members_.push_back({value});
    parts_.push_back(std::numeric_limits<int64_t>::max());
    whole_.push_back(false);
  }

  const std::vector<GraphPtr>& regions_;
  std::vector<std::vector<int>> first_;  // by region and value: its first node
  size_t values_ = 0;
  std::vector<int> parent_;
  std::vector<std::set<int>> members_;  // by root: the values that have a dim in the class
  std::vector<int64_t> parts_;          // by root: the largest number of parts
  std::vector<bool> whole_;             // by root
};

/// The factors of a dim whose parts are plain ranges of it: without windows and chunks.
std::vector<DimFactor> plain_factors(const DimFactor& dim) {
  std::vector<DimFactor> plain = choices_of(dim);
  std::erase_if(plain, [](const DimFactor& choice) { return choice.window || choice.chunks != 1; });
  return plain;
}

/// Ties the dims of the operands of one op that have a factor in common.
void tie_op(DimClasses& classes, int region, const Graph& graph, const Op& op) {
  const OpView op_view = view(graph, op);
  const ShardingRule rule = rule_of(*op_view.definition, op_view);
  std::map<int, int> first_of_factor;
  const auto take = [&](ValueId value, const OperandFactors& dims, bool from_outside) {
    for (size_t d = 0; d < dims.size(); ++d) {
      const int node = classes.node({region, value}, static_cast<int>(d));
      bool is_divided = false;
      for (const DimFactor& dim : plain_factors(dims[d])) {
        const Factor& factor = rule.factors[dim.factor];
        if (factor.kind == FactorKind::kWhole) continue;
        is_divided = true;
        classes.cut_at_most(node, factor.extent);
        const auto [known, is_new] = first_of_factor.emplace(dim.factor, node);
        if (!is_new) classes.tie(known->second, node);
      }
      if (from_outside && !is_divided) classes.keep_whole(node);
    }
  };
  for (size_t i = 0; i < op.inputs.size(); ++i)
    take(op.inputs[i], rule.inputs[i], graph.is_input(op.inputs[i]));
  for (size_t i = 0; i < op.outputs.size(); ++i) take(op.outputs[i], rule.outputs[i], false);
}

/// The classes over which a value is partial when they are divided. A zero is partial over all.
struct Sums {
  bool over_all = false;
  std::set<int> roots = {};
};

Sums common(const Sums& a, const Sums& b) {
  if (a.over_all) return b;
  if (b.over_all) return a;
  Sums both;
  std::set_intersection(a.roots.begin(), a.roots.end(), b.roots.begin(), b.roots.end(),
                        std::inserter(both.roots, both.roots.end()));
  return both;
}

/// The sums of each value of a region, from the ops that produce sums to the linear ops that pass
/// them on.
std::vector<Sums> find_sums(DimClasses& classes, int region, const Graph& graph) {
  std::vector<Sums> sums(graph.values().size());
  const auto of = [&](ValueId value) -> Sums& { return sums[value.index]; };
  for (const Op& op : graph.ops()) {
    const OpView op_view = view(graph, op);
    const ShardingRule rule = rule_of(*op_view.definition, op_view);
    Sums passed;
    for (const std::vector<int>& set : rule.linear) {
      Sums joint{true, {}};
      for (int input : set) joint = common(joint, of(op.inputs[input]));
      passed.over_all = passed.over_all || joint.over_all;
      passed.roots.merge(joint.roots);
    }
    for (ValueId output : op.outputs) of(output) = passed;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      for (size_t d = 0; d < rule.inputs[i].size(); ++d)
        for (const DimFactor& dim : plain_factors(rule.inputs[i][d]))
          for (size_t o = 0; o < op.outputs.size(); ++o)
            if (rule.reduces(dim.factor, static_cast<int>(o)) &&
                rule.factors[dim.factor].reduce == ReduceOp::kSum)
              of(op.outputs[o])
                  .roots.insert(
                      classes.root(classes.node({region, op.inputs[i]}, static_cast<int>(d))));
  }
  return sums;
}

class RegionRule {
 public:
  explicit RegionRule(const OpView& op)
      : op_(op), is_loop_(op.definition->name == kWhileKind), classes_(op.regions) {}

  ShardingRule run() {
    tie_ends();
    for (int r = 0; r < 2; ++r)
      for (const Op& op : region(r).ops()) tie_op(classes_, r, region(r), op);
    ShardingRule rule;
    if (!is_loop_) rule.inputs.emplace_back();
    for (ValueId input : region(0).inputs()) rule.inputs.push_back(factors_of({0, input}, rule));
    for (const auto& [name, value] : region(1).outputs())
      rule.outputs.push_back(factors_of({1, value}, rule));
    mark_reductions(rule);
    return rule;
  }

 private:
  const Graph& region(int index) const { return *op_.regions[index]; }

  /// Both regions take the same operands. The next iteration takes the results of the body. The two
  /// branches have the same results.
  void tie_ends() {
    for (size_t i = 0; i < region(0).inputs().size(); ++i)
      classes_.tie_values({0, region(0).inputs()[i]}, {1, region(1).inputs()[i]});
    for (size_t i = 0; i < region(1).outputs().size(); ++i)
      classes_.tie_values(
          {1, region(1).outputs()[i].second},
          is_loop_ ? Place{1, region(1).inputs()[i]} : Place{0, region(0).outputs()[i].second});
  }

  /// Marks reductions. A result that is a sum over a class stays partial and is reduced once, after
  /// the op. In a loop only the carried values to which the iterations add stay partial.
  void mark_reductions(ShardingRule& rule) {
    std::vector<Sums> of_outputs = is_loop_ ? sums_of_iterations() : sums_of_branches();
    for (const auto& [root, f] : factors_) {
      Factor& factor = rule.factors[f];
      for (int i = 0; i < std::ssize(rule.outputs); ++i) {
        const Sums& sums = of_outputs[i];
        if (!sums.over_all && sums.roots.contains(root) && !has_dim(i, root))
          factor.kind = FactorKind::kReduction;
        else
          factor.made_whole.push_back(i);
      }
      std::erase_if(factor.made_whole, [&](int i) { return has_dim(i, root); });
      if (factor.kind == FactorKind::kParallel) factor.made_whole.clear();
    }
  }

  /// Does the result have a dim of this class?
  bool has_dim(int output, int root) {
    const ValueId value = region(1).outputs()[output].second;
    for (int d = 0; d < region(1).type(value).shape.size(); ++d)
      if (classes_.root(classes_.node({1, value}, d)) == root) return true;
    return false;
  }

  std::vector<Sums> sums_of_branches() {
    const std::vector<Sums> first = find_sums(classes_, 0, region(0)),
                            second = find_sums(classes_, 1, region(1));
    std::vector<Sums> list;
    for (size_t i = 0; i < region(0).outputs().size(); ++i)
      list.push_back(common(first[region(0).outputs()[i].second.index],
                            second[region(1).outputs()[i].second.index]));
    return list;
  }

  /// A carried value to which each iteration adds, and which nothing else reads, is partial over
  /// the classes over which the added value is partial.
  std::vector<Sums> sums_of_iterations() {
    const std::vector<Sums> sums = find_sums(classes_, 1, region(1));
    std::vector<Sums> list;
    for (size_t i = 0; i < region(1).outputs().size(); ++i) {
      const std::optional<ValueId> partial = partial_value_of_iteration(i);
      list.push_back(partial ? sums[partial->index] : Sums{});
    }
    return list;
  }

  std::optional<ValueId> partial_value_of_iteration(size_t index) const {
    const ValueId before = region(1).inputs()[index], after = region(1).outputs()[index].second;
    const Value &first = region(1).value(before), &last = region(1).value(after);
    const int times =
        static_cast<int>(std::count_if(region(1).outputs().begin(), region(1).outputs().end(),
                                       [&](const auto& output) { return output.second == after; }));
    if (first.users.size() != 1 || !region(0).value(region(0).inputs()[index]).users.empty() ||
        !last.users.empty() || times != 1 || last.producer != first.users.front() ||
        !is_float(first.type.dtype))
      return std::nullopt;
    const Op& op = region(1).op(last.producer);
    if (op.kind != "add" || (op.inputs[0] == before) == (op.inputs[1] == before))
      return std::nullopt;
    return op.inputs[op.inputs[0] == before ? 1 : 0];
  }

  OperandFactors factors_of(const Place& place, ShardingRule& rule) {
    const Shape& shape = region(place.region).type(place.value).shape;
    OperandFactors dims(shape.size());
    for (int d = 0; d < shape.size(); ++d) {
      const int node = classes_.node(place, d);
      if (classes_.is_whole(node)) continue;
      const int64_t parts = std::min(classes_.parts(node), shape[d]);
      const auto [known, is_new] =
          factors_.emplace(classes_.root(node), static_cast<int>(rule.factors.size()));
      if (is_new)
        rule.factors.push_back({"d" + std::to_string(rule.factors.size()), parts,
                                FactorKind::kParallel, ReduceOp::kSum});
      const int64_t extent = rule.factors[known->second].extent;
      if (extent == 0 ? shape[d] == 0 : shape[d] % extent == 0)
        dims[d] = {known->second, extent == 0 ? 1 : shape[d] / extent};
    }
    return dims;
  }

  const OpView& op_;
  const bool is_loop_;
  DimClasses classes_;
  std::map<int, int> factors_;  // by root
};

}  // namespace

ShardingRule region_rule(const OpView& op) {
  return RegionRule(op).run();
}

}  // namespace tessera
