#include "planner/placement/internal/chunk_dims.h"

#include <algorithm>

#include "ir/ops/operator.h"
#include "sharding/propagation/candidates.h"

namespace tessera {
namespace {

class Following {
 public:
  Following(const Graph& graph, const OpRules& rules) : graph_(graph), rules_(rules) {
    next_.resize(graph.values().size());
    for (const Variable& variable : graph.variables())
      if (variable.next) {
        next_[variable.value.index].push_back(*variable.next);
        next_[variable.next->index].push_back(variable.value);
      }
    for (const Value& value : graph.values()) dims_.of_value.emplace_back(value.type.shape.size());
    for (int i = 0; i < std::ssize(graph.ops()); ++i)
      dims_.of_op.emplace_back(rules[i].factors.size());
  }

  ChunkDims run() {
    for (int i = 0; i < std::ssize(graph_.ops()); ++i) begin(graph_.ops()[i], rules_[i]);
    while (!open_.empty()) {
      const Step step = open_.back();
      open_.pop_back();
      for (ValueId other : next_[step.value.index]) add(other, step.dim, step.chunks);
      const Value& value = graph_.value(step.value);
      if (value.producer.index >= 0) visit(value.producer, step);
      for (OpId user : value.users) visit(user, step);
    }
    return std::move(dims_);
  }

 private:
  struct Step {
    ValueId value;
    int dim = 0;
    int64_t chunks = 1;
  };

  static bool is_plain(const DimFactor& dim) {
    return dim.factor >= 0 && dim.unit == 1 && dim.chunks == 1 && !dim.window && dim.others.empty();
  }

  /// Does no operand have the factor otherwise?
  static bool is_plain(const ShardingRule& rule, int factor) {
    const auto is_plain_in = [&](const OperandFactors& operand) {
      return std::ranges::all_of(operand, [&](const DimFactor& dim) {
        return find_factor(dim, factor) == nullptr || is_plain(dim);
      });
    };
    return std::ranges::all_of(rule.inputs, is_plain_in) &&
           std::ranges::all_of(rule.outputs, is_plain_in);
  }

  static bool has_window(const std::vector<OperandFactors>& operands, int dim) {
    return std::ranges::any_of(operands, [&](const OperandFactors& operand) {
      return dim < std::ssize(operand) &&
             std::ranges::any_of(
                 choices_of(operand[dim]),
                 [](const DimFactor& choice) { return choice.window.has_value(); });
    });
  }

  /// A dim that is divided in chunks, or else by windows of it or of its pieces, is one of pieces.
  void begin(const Op& op, const ShardingRule& rule) {
    const auto add_pieces = [&](ValueId value, const OperandFactors& operand) {
      for (int dim = 0; dim < std::ssize(operand); ++dim) {
        if (!has_window(rule.inputs, dim)) continue;
        for (const DimFactor& choice : choices_of(operand[dim]))
          if (choice.unit == 1 && choice.chunks > 1) add(value, dim, choice.chunks);
      }
    };
    for (size_t k = 0; k < op.inputs.size(); ++k) add_pieces(op.inputs[k], rule.inputs[k]);
    for (size_t k = 0; k < op.outputs.size(); ++k) add_pieces(op.outputs[k], rule.outputs[k]);
  }

  void add(ValueId value, int dim, int64_t chunks) {
    if (dims_.of_value[value.index][dim].insert(chunks).second)
      open_.push_back({value, dim, chunks});
  }

  void visit(OpId id, const Step& step) {
    const Op& op = graph_.op(id);
    const ShardingRule& rule = rules_[id.index];
    const auto each = [&](const auto& act) {
      for (size_t k = 0; k < op.inputs.size(); ++k) act(op.inputs[k], rule.inputs[k]);
      for (size_t k = 0; k < op.outputs.size(); ++k) act(op.outputs[k], rule.outputs[k]);
    };
    each([&](ValueId value, const OperandFactors& operand) {
      if (!(value == step.value) || !is_plain(operand[step.dim])) return;
      const int factor = operand[step.dim].factor;
      if (rule.factors[factor].extent % step.chunks != 0 || !is_plain(rule, factor) ||
          !may_take_chunks(id, factor, step.chunks) ||
          !dims_.of_op[id.index][factor].insert(step.chunks).second)
        return;
      each([&](ValueId other, const OperandFactors& factors) {
        for (int dim = 0; dim < std::ssize(factors); ++dim)
          if (is_plain(factors[dim]) && factors[dim].factor == factor) add(other, dim, step.chunks);
      });
    });
  }

  /// Not where the kernel must know where its part begins, as the positions of causal attention.
  bool may_take_chunks(OpId op, int factor, int64_t chunks) const {
    const ShardingRule& rule = rules_[op.index];
    OpSharding sharding = OpSharding::replicated(mesh_, rule);
    sharding.factor_axes[factor] = {0};
    take_chunks(view(graph_, graph_.op(op)), rule, factor, chunks, sharding);
    return sharding.chunks_of(factor) > 1;
  }

  const Graph& graph_;
  const OpRules& rules_;
  const MeshPtr mesh_ = std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"x"});
  std::vector<std::vector<ValueId>> next_;  // of variables and their next values
  ChunkDims dims_;
  std::vector<Step> open_;
};

}  // namespace

ChunkDims chunk_dims(const Graph& graph, const OpRules& rules) {
  return Following(graph, rules).run();
}

}  // namespace tessera
