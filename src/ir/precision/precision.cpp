#include "ir/precision/precision.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/tensor/reduce_op.h"
#include "ir/graph/derivations.h"
#include "ir/ops/builder.h"
#include "ir/ops/cast_as.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

bool is_one_of(std::string_view kind, std::span<const std::string_view> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

bool is_sum(const Op& op) {
  if (op.kind != "reduce") return false;
  const std::string& reduction = op.attributes.text("op");
  return reduction == to_text(ReduceOp::kSum);
}

PrecisionClass class_of(const Graph& graph, const Op& op) {
  return op.regions.empty() ? find_operator(graph, op.kind).precision : PrecisionClass::kWide;
}

bool is_exact(PrecisionClass precision) {
  return precision == PrecisionClass::kExact || precision == PrecisionClass::kLookup;
}

/// The types in which a forward graph is computed.
class Assignment {
 public:
  explicit Assignment(const Graph& graph, DType narrow)
      : graph_(graph),
        narrow_(narrow),
        types_(graph.ops().size(), DType::kF32),
        depends_on_data_(graph.values().size(), false) {
    for (ValueId input : graph.inputs()) {
      const std::string& name = graph.value(input).name;
      depends_on_data_[input.index] = name != kStepInput && name != kLearningRateInput;
    }
    for (const Op& op : graph.ops()) assign(op);
    for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) round_earlier(*op);
  }

  /// The type in which op number `index` takes operands of floats.
  DType operand_type(size_t index) const {
    const Op& op = graph_.ops()[index];
    if (is_sum(op) && is_float_value(op.inputs[0]) && is_narrow(op.inputs[0])) return narrow_;
    return types_[index];
  }
  DType type(size_t index) const { return types_[index]; }

 private:
  bool is_float_value(ValueId value) const { return is_float(graph_.type(value).dtype); }

  /// Is the value computed in 16 bits?
  bool is_narrow(ValueId value) const {
    const OpId producer = graph_.value(value).producer;
    return producer.index >= 0 && types_[static_cast<size_t>(producer.index)] == narrow_ &&
           value == graph_.op(producer).outputs.front();
  }

  void assign(const Op& op) {
    const auto depends = [&](ValueId input) { return bool{depends_on_data_[input.index]}; };
    const bool has_data = std::ranges::any_of(op.inputs, depends);
    for (ValueId output : op.outputs) depends_on_data_[output.index] = has_data;
    if (has_data) types_[index_of(op)] = type_for(op);
  }

  DType type_for(const Op& op) const {
    const PrecisionClass precision = class_of(graph_, op);
    if (precision == PrecisionClass::kNarrow) return narrow_;
    if (precision == PrecisionClass::kWide) return DType::kF32;
    if (makes_float_of_another(op)) return DType::kF32;
    bool has_narrow = precision == PrecisionClass::kLookup;
    for (ValueId input : op.inputs) {
      if (!is_float_value(input) || !depends_on_data_[input.index]) continue;
      if (!is_narrow(input)) return DType::kF32;
      has_narrow = true;
    }
    return has_narrow ? narrow_ : DType::kF32;
  }

  /// A cast to f32.
  bool makes_float_of_another(const Op& op) const {
    return op.kind == "cast" && is_float_value(op.outputs.front());
  }

  /// An op in f32 whose result all readers round is computed in 16 bits, if it is exact.
  void round_earlier(const Op& op) {
    const size_t index = index_of(op);
    const ValueId result = op.outputs.front();
    if (types_[index] == narrow_ || op.outputs.size() != 1 || !is_float_value(result) ||
        !is_exact(class_of(graph_, op)))
      return;
    const std::vector<OpId>& users = graph_.value(result).users;
    const auto rounds = [&](OpId user) {
      return types_[static_cast<size_t>(user.index)] == narrow_;
    };
    if (users.empty() || !std::ranges::all_of(users, rounds) || is_result(result)) return;
    types_[index] = narrow_;
  }

  bool is_result(ValueId value) const {
    return std::ranges::any_of(graph_.outputs(),
                               [&](const auto& output) { return output.second == value; }) ||
           std::ranges::any_of(graph_.variables(),
                               [&](const Variable& variable) { return variable.next == value; });
  }

  size_t index_of(const Op& op) const { return static_cast<size_t>(&op - graph_.ops().data()); }

  const Graph& graph_;
  DType narrow_;
  std::vector<DType> types_;           // by op
  std::vector<bool> depends_on_data_;  // by value
};

/// "x.bf16"; of a further result "x:1" it is "x.1.bf16", because a colon is before the number of a
/// result.
std::string name_of_cast(std::string value, DType dtype) {
  std::ranges::replace(value, ':', '.');
  return value + "." + std::string(to_text(dtype));
}

/// Copies a graph op by op; a subclass decides about each op.
class Copy {
 public:
  explicit Copy(const Graph& before) : before_(before), graph_(before.operators()) {
    values_.resize(before.values().size());
    for (ValueId input : before.inputs())
      at(input) = graph_.add_input(before.value(input).name, before.type(input));
    for (const Variable& variable : before.variables())
      at(variable.value) =
          graph_.add_variable(before.value(variable.value).name, before.type(variable.value),
                              variable.initializer, variable.trainable, variable.origin);
  }

 protected:
  ValueId& at(ValueId before) { return values_[static_cast<size_t>(before.index)]; }

  /// Appends `op` on `inputs` of the new graph, whose types decide those of its results.
  void append(const Op& op, std::vector<ValueId> inputs, Attributes attributes) {
    const Operator& definition = find_operator(graph_, op.kind);
    OpView view{op.name, attributes, {}, {}, &definition, op.regions};
    for (ValueId input : inputs) view.inputs.push_back(graph_.type(input));
    const std::vector<TensorType> types = definition.infer(view);
    const OpId made = graph_.add_op(op.name, op.kind, std::move(attributes), std::move(inputs),
                                    types, op.role, op.origin, op.regions);
    for (size_t i = 0; i < op.outputs.size(); ++i) at(op.outputs[i]) = graph_.op(made).outputs[i];
  }

  /// `value` of the new graph in an element type.
  ValueId as(ValueId value, DType dtype, Role role) {
    if (graph_.type(value).dtype == dtype) return value;
    const auto [known, is_new] = casts_.emplace(std::pair(value, dtype), ValueId{});
    if (!is_new) return known->second;
    const Value from = graph_.value(value);
    const std::string source = from.producer.index >= 0 ? graph_.op(from.producer).name : from.name;
    const Attributes attributes{{"dtype", std::string(to_text(dtype))}};
    const OpId made =
        graph_.add_op(graph_.unique_name(name_of_cast(from.name, dtype)), "cast", attributes,
                      {value}, {{dtype, from.type.shape}}, role, {source, "precision"});
    return known->second = graph_.op(made).outputs.front();
  }

  const Graph& before_;
  Graph graph_;
  std::vector<ValueId> values_;  // by value before

 private:
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
};

class PrecisionCopy : Copy {
 public:
  PrecisionCopy(const Graph& before, DType narrow) : Copy(before), types_(before, narrow) {}

  Graph run() {
    for (size_t i = 0; i < before_.ops().size(); ++i) copy(before_.ops()[i], i);
    for (const auto& [name, value] : before_.outputs()) graph_.add_output(name, typed(value));
    for (const Variable& variable : before_.variables())
      if (variable.next) graph_.set_next(at(variable.value), typed(*variable.next));
    return std::move(graph_);
  }

 private:
  void copy(const Op& op, size_t index) {
    std::vector<ValueId> inputs;
    for (ValueId input : op.inputs)
      inputs.push_back(is_float(before_.type(input).dtype)
                           ? as(at(input), types_.operand_type(index), op.role)
                           : at(input));
    Attributes attributes = op.attributes;
    if (types_.operand_type(index) != types_.type(index))
      attributes.set("dtype", std::string("f32"));
    append(op, std::move(inputs), std::move(attributes));
  }

  /// The value with the type that it has in the graph before.
  ValueId typed(ValueId before) {
    return as(at(before), before_.type(before).dtype, Role::kForward);
  }

  Assignment types_;
};

/// Sums that have the attribute dtype.
bool may_sum_wide(const Op& op) {
  constexpr auto kKinds = std::to_array<std::string_view>(
      {"dot_general", "convolution", "convolution_grad_input", "convolution_grad_weight",
       "grouped_matmul", "grouped_outer", "scatter_add", "scatter_add_nd", "reduce"});
  return is_one_of(op.kind, kKinds) && (op.kind != "reduce" || is_sum(op));
}

/// Ops through which a cast to f32 may move to their operands.
bool passes_casts(const Op& op) {
  constexpr auto kKinds = std::to_array<std::string_view>({"add", "neg", "reshape", "transpose"});
  return is_one_of(op.kind, kKinds);
}

class GradientCopy : Copy {
 public:
  GradientCopy(const Graph& before, DType dtype)
      : Copy(before), dtype_(dtype), is_wide_(before.values().size(), false) {
    widen();
  }

  TypedGradients run() {
    for (const Op& op : before_.ops()) copy(op);
    for (const auto& [name, value] : before_.outputs()) graph_.add_output(name, at(value));
    for (const Variable& variable : before_.variables())
      if (variable.next) graph_.set_next(at(variable.value), at(*variable.next));
    return {std::move(graph_), std::move(values_)};
  }

 private:
  /// Finds the values of 16 bits that are in f32 instead.
  void widen() {
    const Graph& before = before_;
    std::vector<bool> is_result(before.values().size(), false);
    for (const auto& [name, value] : before.outputs()) is_result[value.index] = true;
    for (const Variable& variable : before.variables())
      if (variable.next) is_result[variable.next->index] = true;
    for (auto op = before.ops().rbegin(); op != before.ops().rend(); ++op) {
      if (op->role != Role::kBackward || op->outputs.size() != 1) continue;
      const ValueId result = op->outputs.front();
      if (!is_narrow_float(before.type(result).dtype) || is_result[result.index]) continue;
      is_wide_[result.index] =
          (may_sum_wide(*op) || passes_casts(*op)) && is_read_as_wide(before.value(result));
    }
    // An addition of what cannot be in f32 from the start would only move the cast.
    for (const Op& op : before.ops())
      if (op.outputs.size() == 1 && is_wide_[op.outputs.front().index] && passes_casts(op))
        is_wide_[op.outputs.front().index] = std::ranges::any_of(
            op.inputs, [&](ValueId input) { return bool{is_wide_[input.index]}; });
  }

  static bool is_cast_to_f32(const Graph& graph, const Op& op) {
    return op.kind == "cast" && is_narrow_float(graph.type(op.inputs.front()).dtype) &&
           graph.type(op.outputs.front()).dtype == DType::kF32;
  }

  /// Does the op cast the gradient of a parameter to f32? Gradients of activations are sent and
  /// kept in 16 bits, even where only ops in f32 read them.
  bool is_cast_of_gradient(const Op& op) const {
    if (!is_cast_to_f32(before_, op)) return false;
    const auto cast = before_.find_op(op.origin.source);
    if (!cast || before_.op(*cast).kind != "cast") return false;
    ValueId source = before_.op(*cast).inputs.front();
    while (before_.value(source).producer.index >= 0 &&
           before_.op(before_.value(source).producer).inputs.size() == 1)
      source = before_.op(before_.value(source).producer).inputs.front();
    return before_.variable_of(source) != nullptr;
  }

  /// Is each reader a cast to f32, or an op whose result is read so?
  bool is_read_as_wide(const Value& value) const {
    return !value.users.empty() && std::ranges::all_of(value.users, [&](OpId user) {
      const Op& op = before_.op(user);
      return is_cast_of_gradient(op) || (passes_casts(op) && is_wide_[op.outputs.front().index]);
    });
  }

  void copy(const Op& op) {
    if (is_cast_to_f32(before_, op) && is_wide_[op.inputs.front().index]) {
      if (dtype_ == DType::kF32)
        at(op.outputs.front()) = at(op.inputs.front());
      else
        round(op);
      return;
    }
    const bool is_wide = op.outputs.size() == 1 && is_wide_[op.outputs.front().index];
    std::vector<ValueId> inputs;
    for (ValueId input : op.inputs) inputs.push_back(operand(op, input, is_wide));
    Attributes attributes = op.attributes;
    if (is_wide && may_sum_wide(op)) attributes.set("dtype", std::string("f32"));
    append(op, std::move(inputs), std::move(attributes));
  }

  /// Rounds a gradient that is made in f32 to 16 bits, as it is sent, and back.
  ///   cast  to f32, of the gradient as it is before
  void round(const Op& cast) {
    const ValueId wide = at(cast.inputs.front());
    const std::string parts(kCastsParts);
    const Attributes to_narrow{{"dtype", std::string(to_text(dtype_))}, {parts, true}};
    const OpId narrow = graph_.add_op(
        graph_.unique_name(name_of_cast(graph_.value(wide).name, dtype_)), cast.kind, to_narrow,
        {wide}, {{dtype_, graph_.type(wide).shape}}, cast.role, cast.origin);
    Attributes to_wide = cast.attributes;
    to_wide.set(parts, true);
    append(cast, {graph_.op(narrow).outputs.front()}, std::move(to_wide));
  }

  /// Ops of the backward read a cast of their own where the forward casts a value to f32, so that
  /// the 16 bits are kept for them.
  ValueId operand(const Op& op, ValueId input, bool is_wide) {
    if (is_wide && passes_casts(op)) return as(at(input), DType::kF32, op.role);
    const OpId producer = before_.value(input).producer;
    if (op.role != Role::kBackward || producer.index < 0) return at(input);
    const Op& maker = before_.op(producer);
    if (maker.role != Role::kForward || maker.origin.derivation != "precision" ||
        !is_cast_to_f32(before_, maker))
      return at(input);
    return again(maker);
  }

  ValueId again(const Op& cast) {
    const auto [known, is_new] = again_.emplace(cast.name, ValueId{});
    if (is_new) {
      const OpId made =
          graph_.add_op(cast.name + ".backward", cast.kind, cast.attributes,
                        {at(cast.inputs.front())}, {before_.type(cast.outputs.front())},
                        Role::kBackward, {cast.name, std::string(kRecomputed)});
      known->second = graph_.op(made).outputs.front();
    }
    return known->second;
  }

  DType dtype_;
  std::map<std::string, ValueId> again_;  // by name of the cast of the forward
  std::vector<bool> is_wide_;             // by value: is the value of 16 bits in f32 instead?
};

}  // namespace

Graph with_precision(Graph forward, DType dtype) {
  ensure(is_kernel_float(dtype), "a precision is a float with kernels");
  return dtype == DType::kF32 ? std::move(forward) : PrecisionCopy(forward, dtype).run();
}

DType type_of_products(const Graph& graph) {
  std::map<DType, double> flops;
  for (const Op& op : graph.ops())
    if (class_of(graph, op) == PrecisionClass::kNarrow || op.kind == "attention_grad")
      flops[graph.type(op.inputs.front()).dtype] +=
          find_operator(graph, op.kind).work(view(graph, op)).flops.value();
  const auto largest =
      std::ranges::max_element(flops, {}, [](const auto& of_type) { return of_type.second; });
  return largest == flops.end() ? DType::kF32 : largest->first;
}

TypedGradients with_gradients_in(const Graph& graph, DType dtype) {
  return GradientCopy(graph, dtype).run();
}

}  // namespace tessera
