#include "ir/ops/internal/control/invariants.h"

#include <algorithm>
#include <optional>

#include "ir/graph/classes.h"

namespace tessera {
namespace {

class InvariantMover {
 public:
  InvariantMover(Builder& builder, const std::string& path, LoopParts& parts)
      : builder_(builder),
        path_(path),
        parts_(parts),
        body_(*parts.body),
        is_invariant_(body_.values().size(), false),
        is_read_(body_.values().size(), false),
        moved_(body_.values().size()) {}

  void run() {
    find_invariants();
    find_reads();
    const std::vector<ValueId> captured = find_captured();
    if (captured.empty()) return;
    std::vector<ValueId> operands;
    for (size_t i = 0; i < parts_.operands.size(); ++i)
      if (is_kept(i)) operands.push_back(parts_.operands[i]);
    for (ValueId value : captured) operands.push_back(outside(value));
    const auto condition = std::make_shared<const Graph>(with_inputs(*parts_.condition, captured));
    parts_.body = std::make_shared<const Graph>(with_inputs(body_, captured));
    parts_.condition = condition;
    parts_.operands = std::move(operands);
  }

 private:
  void find_invariants() {
    const auto is_invariant = [&](ValueId value) { return is_invariant_[value.index]; };
    for (size_t i = parts_.carried; i < body_.inputs().size(); ++i) {
      const ValueId input = body_.inputs()[i];
      is_invariant_[input.index] = true;
      moved_[input.index] = parts_.operands[i];
    }
    for (const Op& op : body_.ops())
      if (op.regions.empty() && !op.attributes.has(kRandomKey) &&
          std::all_of(op.inputs.begin(), op.inputs.end(), is_invariant))
        for (ValueId output : op.outputs) is_invariant_[output.index] = true;
  }

  bool stays(const Op& op) const {
    return op.inputs.empty() || !is_invariant_[op.outputs.front().index];
  }

  /// What the next iteration, the condition, and the ops that stay read.
  void find_reads() {
    for (const Op& op : body_.ops())
      if (stays(op))
        for (ValueId input : op.inputs) is_read_[input.index] = true;
    for (const auto& [name, value] : body_.outputs()) is_read_[value.index] = true;
    const Graph& condition = *parts_.condition;
    std::vector<bool> is_result(condition.values().size(), false);
    for (const auto& [name, value] : condition.outputs()) is_result[value.index] = true;
    for (size_t i = 0; i < condition.inputs().size(); ++i) {
      const ValueId input = condition.inputs()[i];
      if (is_result[input.index] || !condition.value(input).users.empty())
        is_read_[body_.inputs()[i].index] = true;
    }
  }

  /// Is the operand carried, or still read in the loop?
  bool is_kept(size_t operand) const {
    return operand < parts_.carried || is_read_[body_.inputs()[operand].index];
  }

  /// The results of moved ops that are read in the loop.
  std::vector<ValueId> find_captured() const {
    std::vector<ValueId> captured;
    for (const Op& op : body_.ops())
      for (ValueId output : op.outputs)
        if (!stays(op) && is_read_[output.index]) captured.push_back(output);
    return captured;
  }

  /// The value in the graph around the loop; its op is added there with all that it needs.
  ValueId outside(ValueId value) {
    std::optional<ValueId>& made = moved_[value.index];
    if (made) return *made;
    const Op& op = body_.op(body_.value(value).producer);
    std::vector<ValueId> inputs;
    std::vector<TensorType> types;
    for (ValueId input : op.inputs) inputs.push_back(outside(input));
    for (ValueId output : op.outputs) types.push_back(body_.type(output));
    Graph& graph = builder_.graph();
    const OpId added = graph.add_op(graph.unique_name(name_outside(op.name)), op.kind,
                                    op.attributes, std::move(inputs), types, op.role, op.origin);
    for (size_t i = 0; i < op.outputs.size(); ++i)
      moved_[op.outputs[i].index] = graph.op(added).outputs[i];
    return *made;
  }

  std::string name_outside(const std::string& name) const {
    const std::string scope = path_ + ".body.";
    return path_ + ".once." + (name.starts_with(scope) ? name.substr(scope.size()) : name);
  }

  /// A region with the operands that are kept and the captured values as inputs; the body without
  /// the moved ops. Constants stay where they are read.
  Graph with_inputs(const Graph& region, const std::vector<ValueId>& captured) const {
    const bool is_body = &region == &body_;
    Graph copy(region.operators());
    std::vector<ValueId> stands_for(region.values().size());
    const auto of = [&](ValueId value) -> ValueId& { return stands_for[value.index]; };
    for (size_t i = 0; i < region.inputs().size(); ++i) {
      const ValueId input = region.inputs()[i];
      if (is_kept(i)) of(input) = copy.add_input(region.value(input).name, region.type(input));
    }
    for (ValueId value : captured) {
      const std::string& name = body_.value(value).name;
      const ValueId input =
          copy.add_input(is_body ? name : region.unique_name(name), body_.type(value));
      if (is_body) of(value) = input;
    }
    for (const Op& op : region.ops()) {
      if (is_body && !stays(op)) continue;
      std::vector<ValueId> inputs;
      std::vector<TensorType> types;
      for (ValueId input : op.inputs) inputs.push_back(of(input));
      for (ValueId output : op.outputs) types.push_back(region.type(output));
      const OpId added = copy.add_op(op.name, op.kind, op.attributes, std::move(inputs), types,
                                     op.role, op.origin, op.regions);
      for (size_t i = 0; i < op.outputs.size(); ++i) of(op.outputs[i]) = copy.op(added).outputs[i];
    }
    for (const auto& [name, value] : region.outputs()) copy.add_output(name, of(value));
    return copy;
  }

  Builder& builder_;
  const std::string& path_;
  LoopParts& parts_;
  const Graph& body_;
  std::vector<bool> is_invariant_;             // by value of the body
  std::vector<bool> is_read_;                  // by value of the body: in the loop, after the move
  std::vector<std::optional<ValueId>> moved_;  // by value of the body: the one around the loop
};

}  // namespace

void move_invariants(Builder& builder, const std::string& path, LoopParts& parts) {
  const GraphPtr body = parts.body;  // outlives the mover, which replaces it
  InvariantMover(builder, path, parts).run();
}

}  // namespace tessera
