#include "compiler/lower/internal/passes/sum_chains.h"

#include <algorithm>
#include <optional>

#include "base/text/count_text.h"
#include "base/text/name_pattern.h"
#include "sharding/propagation/candidates.h"
#include "sharding/propagation/named.h"

namespace tessera {
namespace {

/// Additions whose results only the next one reads, up to the one that makes the total.
struct SumChain {
  std::vector<OpId> additions;
  std::vector<ValueId> sums;      // of the additions but the last
  std::vector<ValueId> operands;  // what none of them makes
};

class SumChains {
 public:
  SumChains(const Graph& graph, ShardedGraph& sharded, const std::vector<Mark>& marks)
      : graph_(graph), sharded_(sharded), is_kept_(graph.values().size(), false) {
    for (const auto& [name, value] : graph.outputs()) is_kept_[value.index] = true;
    for (const Variable& variable : graph.variables())
      if (variable.next) is_kept_[variable.next->index] = true;
    keep_marked(marks);
  }

  std::string run() {
    std::string text;
    for (int i = 0; i < std::ssize(graph_.ops()); ++i)
      if (const OpId id{i}; is_addition(id) && !is_inside(graph_.op(id).outputs.front()))
        text += reduce_once(id);
    return text;
  }

 private:
  /// Of the numbers alone, which are few: nothing else is in a chain.
  void keep_marked(const std::vector<Mark>& marks) {
    std::vector<ValueId> numbers;
    for (int i = 0; i < std::ssize(graph_.values()); ++i)
      if (is_made_number({i})) numbers.push_back({i});
    for (const Mark& mark : marks) {
      if (mark.placement.empty()) continue;
      if (is_one_name(mark.pattern)) {  // plans of pipelines mark every op by its name
        keep_named(mark);
        continue;
      }
      const NamePattern pattern(mark.pattern);
      for (ValueId value : numbers)
        if (pattern.matches(mark.kind == Mark::Kind::kTensor
                                ? graph_.value(value).name
                                : graph_.op(graph_.value(value).producer).name))
          is_kept_[value.index] = true;
    }
  }

  void keep_named(const Mark& mark) {
    if (mark.kind == Mark::Kind::kTensor) {
      const std::optional<ValueId> value = graph_.find_value(mark.pattern);
      if (value && is_made_number(*value)) is_kept_[value->index] = true;
    } else if (const std::optional<OpId> op = graph_.find_op(mark.pattern)) {
      for (const ValueId value : graph_.op(*op).outputs)
        if (is_made_number(value)) is_kept_[value.index] = true;
    }
  }

  bool is_made_number(ValueId value) const {
    return is_number(value) && graph_.value(value).producer.index >= 0;
  }
  bool is_number(ValueId value) const { return element_count(graph_.type(value).shape) == 1; }

  /// The index of the set of both operands in the rule of an addition.
  std::optional<int> linear_set(OpId id) const {
    const auto& sets = sharded_.rules[id.index].linear;
    const auto both = std::find(sets.begin(), sets.end(), std::vector<int>{0, 1});
    return both == sets.end() ? std::nullopt : std::optional(static_cast<int>(both - sets.begin()));
  }

  bool is_addition(OpId id) const {
    const Op& op = graph_.op(id);
    return op.kind == "add" && op.role == Role::kOptimizer && op.inputs[0] != op.inputs[1] &&
           is_number(op.outputs.front()) && linear_set(id).has_value();
  }

  /// Is it made by an op, for one other op of the same mesh?
  bool has_one_reader(ValueId value) const {
    const Value& v = graph_.value(value);
    return !is_kept_[value.index] && v.producer.index >= 0 && v.users.size() == 1 &&
           stage_of(v.producer) == stage_of(v.users.front());
  }
  int stage_of(OpId id) const { return sharded_.stages.ops[id.index]; }

  /// Is it a sum that another addition adds to?
  bool is_inside(ValueId value) const {
    return has_one_reader(value) && is_addition(graph_.value(value).producer) &&
           is_addition(graph_.value(value).users.front());
  }

  SumChain chain_of(OpId last) const {
    SumChain chain{{last}, {}, {}};
    for (size_t next = 0; next < chain.additions.size(); ++next)
      for (ValueId input : graph_.op(chain.additions[next]).inputs) {
        if (!is_inside(input)) {
          chain.operands.push_back(input);
          continue;
        }
        chain.sums.push_back(input);
        chain.additions.push_back(graph_.value(input).producer);
      }
    return chain;
  }

  /// May the value stay a partial sum over the axis, as its op makes it?
  bool is_partial_operand(ValueId value, int axis) const {
    if (!has_one_reader(value)) return false;
    const OpId producer = graph_.value(value).producer;
    const auto& outputs = graph_.op(producer).outputs;
    const auto index = std::find(outputs.begin(), outputs.end(), value) - outputs.begin();
    const DistAttr made =
        output_attr(view(graph_, graph_.op(producer)), sharded_.rules[producer.index],
                    sharded_.at(producer), static_cast<int>(index));
    return std::find(made.partial.begin(), made.partial.end(), PartialAxis{axis, ReduceOp::kSum}) !=
           made.partial.end();
  }

  std::string reduce_once(OpId last) {
    const SumChain chain = chain_of(last);
    const Mesh& mesh = *sharded_.at(last).mesh;
    std::string text;
    for (int axis = 0; axis < mesh.axis_count(); ++axis) {
      if (is_time(mesh, axis)) continue;
      std::vector<ValueId> partial;
      for (ValueId operand : chain.operands)
        if (is_partial_operand(operand, axis)) partial.push_back(operand);
      if (partial.size() < 2 || !pass_on(chain, axis)) continue;
      for (ValueId value : partial) keep_partial(value, axis);
      text += graph_.op(last).name + ": " + counted(std::ssize(partial), "partial sum") + " over " +
              mesh.axes()[axis] + " are added before one reduction\n";
    }
    return text;
  }

  /// returns  false when all additions do so already
  bool pass_on(const SumChain& chain, int axis) {
    bool has_changed = false;
    for (OpId id : chain.additions) {
      OpSharding& sharding = sharded_.ops[id.index];
      if (sharding.uses(axis)) continue;
      sharding.linear.push_back({axis, *linear_set(id)});
      has_changed = true;
    }
    for (ValueId sum : chain.sums) keep_partial(sum, axis);
    return has_changed;
  }

  void keep_partial(ValueId value, int axis) {
    DistAttr& attr = sharded_.values[value.index];
    if (attr.is_partial_on(axis)) return;
    attr.partial.push_back({axis, ReduceOp::kSum});
    std::sort(attr.partial.begin(), attr.partial.end(),
              [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
  }

  const Graph& graph_;
  ShardedGraph& sharded_;
  std::vector<bool> is_kept_;  // by value: it stays as propagation placed it
};

}  // namespace

std::string reduce_sums_once(const Graph& graph, ShardedGraph& sharded,
                             const std::vector<Mark>& marks) {
  return SumChains(graph, sharded, marks).run();
}

}  // namespace tessera
