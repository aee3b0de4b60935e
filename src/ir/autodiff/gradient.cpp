#include "ir/autodiff/gradient.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/autodiff/internal/control_gradient.h"
#include "ir/autodiff/internal/reach.h"

namespace tessera {
namespace {

/// By value: does `loss` depend on it through any operator except stop_gradient? Computed backward
/// in program order.
std::vector<bool> values_before(const Graph& graph, ValueId loss) {
  std::vector<bool> marked = mark_values(graph, {loss});
  for (int index = graph.value(loss).producer.index; index >= 0; --index) {
    const Op& op = graph.op({index});
    if (!any_marked(marked, op.outputs) || stops_gradient(op)) continue;
    for (ValueId input : op.inputs) marked[input.index] = true;
  }
  return marked;
}

/// The first op without gradient on a path from `target` to the loss, or nullptr when stop_gradient
/// ends every path.
const Op* blocking_op(const Graph& graph, ValueId target, ValueId loss) {
  const std::vector<bool> before_loss = values_before(graph, loss);
  std::vector<bool> reached = mark_values(graph, {target});
  for (int index = 0; index <= graph.value(loss).producer.index; ++index) {
    const Op& op = graph.op({index});
    if (!any_marked(reached, op.inputs) || stops_gradient(op) ||
        !any_marked(before_loss, op.outputs))
      continue;
    if (!has_gradient(graph, op)) return &op;
    for (ValueId output : op.outputs) reached[output.index] = true;
  }
  return nullptr;
}

/// Carries gradients from the loss to the targets, against the program order.
class ReverseSweep {
 public:
  ReverseSweep(Graph& graph, uint64_t seed, const std::vector<ValueId>& targets)
      : graph_(graph),
        seed_(seed),
        needed_(values_with_gradient(graph, targets)),
        contributions_(graph.values().size()) {}

  void run(ValueId loss) {
    Builder builder = builder_for(graph_.value(loss));
    contributions_[loss.index] = {
        builder.constant(graph_.type(loss), 1.0, graph_.value(loss).name + ".grad")};
    for (int index = graph_.value(loss).producer.index; index >= 0; --index) visit({index});
  }

  /// The sum of the contributions of the uses of `value`; nullopt when it is zero.
  std::optional<ValueId> gradient(ValueId value) {
    std::vector<ValueId>& parts = contributions_[value.index];
    if (parts.empty()) return std::nullopt;
    // The uses were visited from last to first; the sum goes from first to last.
    ValueId sum = parts.back();
    for (size_t i = parts.size() - 1; i-- > 0;)
      sum = builder_for(graph_.value(value), "gradient sum")
                .add(sum, parts[i], graph_.value(value).name + ".grad.sum");
    parts = {sum};
    return sum;
  }

  ValueId zero(ValueId value) {
    return builder_for(graph_.value(value))
        .constant(graph_.type(value), 0.0, graph_.value(value).name + ".grad.zero");
  }

 private:
  /// A builder for gradients of `value` itself. Their source is its op, or the variable or input.
  Builder builder_for(const Value& value, const std::string& derivation = "gradient") {
    Builder builder(graph_, seed_);
    const std::string source =
        value.producer.index >= 0 ? graph_.op(value.producer).name : value.name;
    builder.derive(Role::kBackward, {source, derivation});
    return builder;
  }

  void visit(OpId id) {
    // This is a copy: the gradient function appends to the list that holds the op.
    const Op op = graph_.op(id);
    if (!any_marked(needed_, op.outputs)) return;
    GradientCall call{graph_, op, {}, {}};
    for (ValueId output : op.outputs) call.output_gradients.push_back(gradient(output));
    for (ValueId input : op.inputs) call.wanted.push_back(needed_[input.index]);
    const auto given = [](const std::optional<ValueId>& flow) { return flow.has_value(); };
    if (std::any_of(call.output_gradients.begin(), call.output_gradients.end(), given) &&
        std::find(call.wanted.begin(), call.wanted.end(), true) != call.wanted.end())
      apply(call);
  }

  void apply(const GradientCall& call) {
    Builder builder(graph_, seed_);
    builder.derive(Role::kBackward, {call.op.name, "gradient"});
    const auto scope = builder.scope(call.op.name + ".grad");
    const auto gradients = call.op.regions.empty()
                               ? find_operator(graph_, call.op.kind).gradient(builder, call)
                               : control_gradient(builder, call, differentiate);
    ensure(gradients.size() == call.op.inputs.size(),
           [&] { return "the gradient of '" + call.op.name + "' has an entry for each operand"; });
    for (size_t i = gradients.size(); i-- > 0;) {
      if (!call.wanted[i] || !gradients[i]) continue;
      const ValueId input = call.op.inputs[i];
      ensure(graph_.type(*gradients[i]) == graph_.type(input),
             [&] { return "the gradient of '" + call.op.name + "' has the type of its operand"; });
      contributions_[input.index].push_back(*gradients[i]);
    }
  }

  Graph& graph_;
  uint64_t seed_;
  std::vector<bool> needed_;
  std::vector<std::vector<ValueId>> contributions_;  // by value; last use first
};

[[noreturn]] void refuse(const Graph& graph, ValueId target, ValueId loss, const Op& blocking) {
  const std::string& name = graph.value(target).name;
  throw UserError("no gradient of '" + graph.value(loss).name + "' reaches '" + name + "'",
                  "the only way there leads through '" + blocking.name + "', and " + blocking.kind +
                      " has no gradient",
                  "do not train '" + name + "', or put a stop_gradient before '" + blocking.name +
                      "' if zeros are meant",
                  ExitCode::kBadData);
}

}  // namespace

std::vector<ValueId> differentiate(Builder& builder, ValueId loss,
                                   const std::vector<ValueId>& targets) {
  Graph& graph = builder.graph();
  ensure(graph.type(loss) == TensorType{DType::kF32, {}},
         [&] { return "'" + graph.value(loss).name + "' is a scalar f32"; });
  ReverseSweep sweep(graph, builder.seed(), targets);
  sweep.run(loss);
  std::vector<ValueId> gradients;
  for (ValueId target : targets) {
    const auto gradient = sweep.gradient(target);
    if (!gradient && is_float(graph.type(target).dtype))
      if (const Op* blocking = blocking_op(graph, target, loss))
        refuse(graph, target, loss, *blocking);
    gradients.push_back(gradient ? *gradient : sweep.zero(target));
  }
  return gradients;
}

}  // namespace tessera
