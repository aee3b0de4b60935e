#include "ir/autodiff/internal/control_gradient.h"

#include <algorithm>

#include "base/error.h"
#include "ir/autodiff/internal/reach.h"
#include "ir/ops/control/control.h"

namespace tessera {
namespace {

using Gradients = std::vector<std::optional<ValueId>>;

bool is_real(const Graph& graph, ValueId value) {
  return is_float(graph.type(value).dtype);
}

/// The part of a name after the scope of the region, which all its inputs share: "tanh" of
/// "loop.body.tanh".
std::string name_inside(const std::string& name, const std::string& scope) {
  return name.starts_with(scope) ? name.substr(scope.size()) : name;
}

/// The scope in which the op's own regions write their names: "loop.body.".
std::string scope_of(const Op& op, std::string_view region) {
  return op.name + "." + std::string(region) + ".";
}

/// Writes the ops of `region` again, with `inputs` instead of its own inputs. Returns the values of
/// its outputs.
std::vector<ValueId> replay(Builder& builder, const Graph& region,
                            const std::vector<ValueId>& inputs, const std::string& scope) {
  std::vector<ValueId> stands_for(region.values().size());
  const auto of = [&](ValueId value) -> ValueId& { return stands_for[value.index]; };
  for (size_t i = 0; i < inputs.size(); ++i) of(region.inputs()[i]) = inputs[i];
  for (const Op& op : region.ops()) {
    std::vector<ValueId> operands;
    for (ValueId input : op.inputs) operands.push_back(of(input));
    const std::vector<ValueId> results =
        builder.op(op.kind, operands, op.attributes, name_inside(op.name, scope), op.regions);
    for (size_t i = 0; i < results.size(); ++i) of(op.outputs[i]) = results[i];
  }
  std::vector<ValueId> outputs;
  for (const auto& [name, value] : region.outputs()) outputs.push_back(of(value));
  return outputs;
}

/// The gradients of `targets` for the gradients `flows` of `outputs`: the gradients of the sum of
/// the products of the two.
std::vector<ValueId> vector_jacobian(Builder& builder, const std::vector<ValueId>& outputs,
                                     const std::vector<ValueId>& flows,
                                     const std::vector<ValueId>& targets,
                                     Differentiate differentiate) {
  const auto scope = builder.scope("flow");
  std::optional<ValueId> sum;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId product = builder.mul(outputs[i], flows[i]);
    std::vector<int64_t> dims;
    for (int d = 0; d < builder.shape(product).size(); ++d) dims.push_back(d);
    const ValueId part = builder.reduce_sum(product, dims);
    sum = sum ? builder.add(*sum, part) : part;
  }
  return differentiate(builder, *sum, targets);
}

std::vector<ValueId> select_values(const std::vector<ValueId>& values,
                                   const std::vector<size_t>& indices) {
  std::vector<ValueId> chosen;
  for (size_t index : indices) chosen.push_back(values[index]);
  return chosen;
}

void append(std::vector<ValueId>& list, const std::vector<ValueId>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

/// The gradient of output `index`, or zeros.
ValueId flow_or_zero(Builder& builder, const GradientCall& call, size_t index) {
  const auto flow = call.output_gradients[index];
  return flow ? *flow
              : builder.constant(TensorType(builder.type(call.op.outputs[index])), 0.0, "zero");
}

// ---- if ----

/// The outputs of a region that are floating-point numbers. Only they have gradients.
std::vector<size_t> real_outputs(const Graph& region) {
  std::vector<size_t> list;
  for (size_t i = 0; i < region.outputs().size(); ++i)
    if (is_real(region, region.outputs()[i].second)) list.push_back(i);
  return list;
}

Gradients if_gradient(Builder& builder, const GradientCall& call, Differentiate differentiate) {
  const Op op = call.op;
  const size_t count = op.inputs.size() - 1;
  std::vector<size_t> wanted;
  for (size_t i = 0; i < count; ++i)
    if (call.wanted[i + 1]) wanted.push_back(i);
  std::vector<size_t> flowing;
  for (size_t i : real_outputs(*op.regions[0]))
    if (call.output_gradients[i]) flowing.push_back(i);
  Gradients gradients(op.inputs.size());
  if (wanted.empty() || flowing.empty()) return gradients;
  BranchOptions options{op.inputs[0], {op.inputs.begin() + 1, op.inputs.end()}, {}, {}, "branch"};
  for (size_t i : flowing) options.captured.push_back(*call.output_gradients[i]);
  const auto region_gradient = [&](const Graph& region, std::string_view name) -> RegionMaker {
    return [&, name, differentiate](Builder& inner, const RegionValues& values) {
      const auto middle = values.captured.begin() + count;
      const std::vector<ValueId> operands(values.captured.begin(), middle),
          flows(middle, values.captured.end());
      const std::vector<ValueId> outputs =
          select_values(replay(inner, region, operands, scope_of(op, name)), flowing);
      return vector_jacobian(inner, outputs, flows, select_values(operands, wanted), differentiate);
    };
  };
  options.then_region = region_gradient(*op.regions[0], "then");
  options.else_region = region_gradient(*op.regions[1], "else");
  const std::vector<ValueId> results = build_if(builder, options);
  for (size_t i = 0; i < wanted.size(); ++i) gradients[wanted[i] + 1] = results[i];
  return gradients;
}

// ---- while ----

Shape stacked(const Shape& shape, int64_t iterations) {
  Shape stack{iterations};
  for (int64_t extent : shape) stack.push_back(extent);
  return stack;
}

class WhileGradient {
 public:
  WhileGradient(Builder& builder, const GradientCall& call, Differentiate differentiate)
      : builder_(builder),
        call_(call),
        differentiate_(differentiate),
        op_(call.op),
        loop_(while_view(op_.regions, op_.attributes)) {
    if (!loop_.max_iterations)
      throw UserError(
          "no gradient passes through while '" + op_.name + "', which has no max_iterations",
          "what each iteration begins with is kept for the backward, which needs a bound of the "
          "number of iterations",
          "set max_iterations to a bound of its iterations, or put a stop_gradient after it",
          ExitCode::kBadData);
    find_active();
  }

  Gradients run() {
    Gradients gradients(op_.inputs.size());
    if (active_.empty() || std::none_of(active_.begin(), active_.end(), [&](size_t i) {
          return call_.output_gradients[i].has_value();
        }))
      return gradients;
    kept_ = find_kept();
    const Loop forward = run_again();
    const Loop backward = run_back(forward);
    // After the count come the gradients of carried values, then of captured ones.
    for (size_t i = 0; i < active_.size(); ++i)
      if (call_.wanted[active_[i]]) gradients[active_[i]] = backward.results[1 + i];
    for (size_t i = 0; i < wanted_.size(); ++i)
      gradients[wanted_[i]] = backward.results[1 + active_.size() + i];
    return gradients;
  }

 private:
  /// Finds the carried values that depend on the wanted operands, through any number of iterations,
  /// and the captured values that are wanted.
  void find_active() {
    std::vector<bool> active(loop_.carried, false);
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      if (!call_.wanted[i] || !is_real(loop_.body, loop_.body.inputs()[i])) continue;
      if (i < loop_.carried)
        active[i] = true;
      else
        wanted_.push_back(i);
    }
    for (bool changed = true; changed;) {
      changed = false;
      std::vector<ValueId> targets = select_values(loop_.body.inputs(), wanted_);
      for (size_t i = 0; i < loop_.carried; ++i)
        if (active[i]) targets.push_back(loop_.body.inputs()[i]);
      const std::vector<bool> reached = values_with_gradient(loop_.body, targets);
      for (size_t i = 0; i < loop_.carried; ++i) {
        const ValueId next = loop_.body.outputs()[i].second;
        if (active[i] || !reached[next.index] || !is_real(loop_.body, next)) continue;
        active[i] = changed = true;
      }
    }
    for (size_t i = 0; i < loop_.carried; ++i)
      if (active[i]) active_.push_back(i);
  }

  /// The carried values that the backward loop reads. They are kept for each iteration. The
  /// backward is written once into a separate graph to find them.
  std::vector<size_t> find_kept() const {
    Graph aside(builder_.graph().operators());
    Builder region(aside);
    const auto input = [&](size_t operand) {
      return region.input("operand", TensorType(builder_.type(op_.inputs[operand])));
    };
    std::vector<ValueId> inputs, flows, sums;
    for (size_t i = 0; i < op_.inputs.size(); ++i) inputs.push_back(input(i));
    for (size_t i : active_) flows.push_back(input(i));
    for (size_t i : wanted_) sums.push_back(input(i));
    const std::vector<bool> needed = needed_for(aside, flow_back(region, inputs, flows, sums));
    std::vector<size_t> list;
    for (size_t i = 0; i < loop_.carried; ++i)
      if (needed[inputs[i].index]) list.push_back(i);
    return list;
  }

  std::vector<ValueId> captured() const {
    return {op_.inputs.begin() + loop_.carried, op_.inputs.end()};
  }

  /// Repeats the forward loop and fills the stacks.
  Loop run_again() {
    LoopOptions options;
    options.carried.assign(op_.inputs.begin(), op_.inputs.begin() + loop_.carried);
    for (size_t i : kept_) {
      const TensorType type = builder_.type(op_.inputs[i]);
      options.carried.push_back(builder_.constant(
          {type.dtype, stacked(type.shape, std::max<int64_t>(*loop_.max_iterations, 1))}, 0,
          "stack"));
    }
    options.captured = captured();
    const auto first = [&](const RegionValues& values) {
      std::vector<ValueId> inputs(values.carried.begin(), values.carried.begin() + loop_.carried);
      append(inputs, values.captured);
      return inputs;
    };
    options.condition = [&](Builder& region, const RegionValues& values) {
      return replay(region, loop_.condition, first(values), scope_of(op_, "condition"));
    };
    options.body = [&](Builder& region, const RegionValues& values) {
      std::vector<ValueId> next = replay(region, loop_.body, first(values), scope_of(op_, "body"));
      for (size_t k = 0; k < kept_.size(); ++k)
        next.push_back(push(region, values.carried[loop_.carried + k], values.carried[kept_[k]],
                            values.iteration));
      return next;
    };
    options.max_iterations = loop_.max_iterations;
    options.name = "again";
    return build_while(builder_, options);
  }

  static ValueId push(Builder& region, ValueId stack, ValueId value, ValueId iteration) {
    const ValueId row = region.reshape(value, stacked(region.shape(value), 1));
    return region.dynamic_update(stack, row, {iteration}, {0}, "push");
  }

  static ValueId top(Builder& region, ValueId stack, const Shape& shape, ValueId iteration) {
    const ValueId row = region.dynamic_slice(stack, {iteration}, {0}, {1}, "top");
    return region.reshape(row, shape);
  }

  /// The backward loop. It carries the number of remaining iterations, the gradients of the active
  /// carried values, and the sums of the gradients of captured values.
  Loop run_back(const Loop& forward) {
    LoopOptions options;
    options.carried = {forward.iterations};
    for (size_t i : active_) options.carried.push_back(flow_or_zero(builder_, call_, i));
    for (size_t i : wanted_)
      options.carried.push_back(
          builder_.constant(TensorType(builder_.type(op_.inputs[i])), 0, "none"));
    options.captured = captured();
    options.captured.insert(options.captured.end(), forward.results.begin() + loop_.carried,
                            forward.results.end());
    options.condition = [](Builder& region, const RegionValues& values) {
      const ValueId zero = region.constant({DType::kI32, {}}, 0, "zero");
      return std::vector{region.compare("gt", values.carried[0], zero)};
    };
    options.body = [&](Builder& region, const RegionValues& values) {
      return step_back(region, values);
    };
    options.max_iterations = loop_.max_iterations;
    options.name = "back";
    return build_while(builder_, options);
  }

  std::vector<ValueId> step_back(Builder& region, const RegionValues& values) const {
    const ValueId one = region.constant({DType::kI32, {}}, 1, "one");
    const ValueId iteration = region.sub(values.carried[0], one, "iteration");
    const std::vector<ValueId> inputs = inputs_of_iteration(region, values, iteration);
    const auto flows = values.carried.begin() + 1,
               sums = flows + static_cast<std::ptrdiff_t>(active_.size());
    std::vector<ValueId> next =
        flow_back(region, inputs, {flows, sums}, {sums, values.carried.end()});
    next.insert(next.begin(), iteration);
    return next;
  }

  /// Passes gradients through the body of one iteration: returns the flows into its carried values,
  /// and the sums including its contributions.
  std::vector<ValueId> flow_back(Builder& region, const std::vector<ValueId>& inputs,
                                 const std::vector<ValueId>& flows,
                                 const std::vector<ValueId>& sums) const {
    const std::vector<ValueId> outputs = replay(region, loop_.body, inputs, scope_of(op_, "body"));
    std::vector<ValueId> targets = select_values(inputs, active_);
    append(targets, select_values(inputs, wanted_));
    std::vector<ValueId> next =
        vector_jacobian(region, select_values(outputs, active_), flows, targets, differentiate_);
    for (size_t k = 0; k < wanted_.size(); ++k) {
      ValueId& sum = next[active_.size() + k];
      sum = region.add(sums[k], sum, "sum");
    }
    return next;
  }

  /// The initial values of the body, from the stacks and from the captured values. Values that it
  /// never reads are zero.
  std::vector<ValueId> inputs_of_iteration(Builder& region, const RegionValues& values,
                                           ValueId iteration) const {
    std::vector<ValueId> inputs;
    size_t stack = op_.inputs.size() - loop_.carried;
    for (size_t i = 0; i < loop_.carried; ++i) {
      const TensorType type = loop_.body.type(loop_.body.inputs()[i]);
      const bool is_kept = std::find(kept_.begin(), kept_.end(), i) != kept_.end();
      inputs.push_back(is_kept ? top(region, values.captured[stack++], type.shape, iteration)
                               : region.constant(type, 0, "unread"));
    }
    inputs.insert(inputs.end(), values.captured.begin(),
                  values.captured.begin() + (op_.inputs.size() - loop_.carried));
    return inputs;
  }

  Builder& builder_;
  const GradientCall& call_;
  Differentiate differentiate_;
  const Op op_;  // a copy: the builder appends to the list that holds it
  const WhileView loop_;
  std::vector<size_t> active_, wanted_, kept_;  // operands
};

}  // namespace

Gradients control_gradient(Builder& builder, const GradientCall& call,
                           Differentiate differentiate) {
  return call.op.kind == kIfKind ? if_gradient(builder, call, differentiate)
                                 : WhileGradient(builder, call, differentiate).run();
}

}  // namespace tessera
