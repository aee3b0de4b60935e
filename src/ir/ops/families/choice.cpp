// Element-wise operators that choose or convert: compare, not, select, cast, stop_gradient.
#include <array>
#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/cast_as.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"

namespace tessera {
namespace {

using namespace detail;

Work cheap_work(const OpView& op) {
  return elementwise_work(op, kCheap);
}
ShardingRule plain_rule(const OpView& op) {
  return elementwise_rule(op, {});
}

// ---- compare ----

struct Relation {
  std::string_view name;
  bool (*holds)(double a, double b);
};

constexpr std::array<Relation, 6> kRelations{{
    {"eq", [](double a, double b) { return a == b; }},
    {"ne", [](double a, double b) { return a != b; }},
    {"lt", [](double a, double b) { return a < b; }},
    {"le", [](double a, double b) { return a <= b; }},
    {"gt", [](double a, double b) { return a > b; }},
    {"ge", [](double a, double b) { return a >= b; }},
}};

const Relation* find_relation(std::string_view name) {
  for (const Relation& relation : kRelations)
    if (relation.name == name) return &relation;
  return nullptr;
}

std::vector<TensorType> infer_compare(const OpView& op) {
  expect_operands("compare", op, 2);
  expect_dtype("compare", op, 0, "a", {DType::kF32, DType::kI32});
  expect_equal_types("compare", op, 0, "a", 1, "b");
  const std::string& relation = op.attributes.text("relation");
  if (find_relation(relation) == nullptr)
    refuse("compare", op, "'" + relation + "' is not a relation",
           "relations are eq, ne, lt, le, gt and ge", "use one of these");
  return {{DType::kBool, op.inputs[0].shape}};
}

KernelCall compare_kernel(const OpView& op, std::span<const Split>) {
  return kernel_call("compare." + op.attributes.text("relation"));
}

Decision compare_decision(const OpView& op) {
  if (!is_float(op.inputs[0].dtype)) return {};
  return {.operands = {0, 1}, .results = {0}};
}

void compare_reference(const ReferenceCall& call) {
  const Relation* relation = find_relation(call.op.attributes.text("relation"));
  const std::vector<double>&a = call.inputs[0]->values, &b = call.inputs[1]->values;
  for (size_t i = 0; i < a.size(); ++i)
    call.outputs[0].values[i] = relation->holds(a[i], b[i]) ? 1 : 0;
}

// ---- not ----

std::vector<TensorType> infer_not(const OpView& op) {
  expect_operands("not", op, 1);
  expect_dtype("not", op, 0, "x", {DType::kBool, DType::kI32});
  return {op.inputs[0]};
}

KernelCall not_kernel(const OpView&, std::span<const Split>) {
  return kernel_call("not");
}

/// -1 - x has all bits of the i32 x inverted.
void not_reference(const ReferenceCall& call) {
  const std::vector<double>& x = call.inputs[0]->values;
  const double ones = call.inputs[0]->type.dtype == DType::kBool ? 1 : -1;
  for (size_t i = 0; i < x.size(); ++i) call.outputs[0].values[i] = ones - x[i];
}

// ---- select ----

std::vector<TensorType> infer_select(const OpView& op) {
  expect_operands("select", op, 3);
  expect_dtype("select", op, 0, "condition", {DType::kBool});
  expect_equal_types("select", op, 1, "a", 2, "b");
  if (op.inputs[0].shape != op.inputs[1].shape)
    refuse("select", op,
           "condition " + to_text(op.inputs[0]) + " does not fit a " + to_text(op.inputs[1]),
           "select chooses element by element, so all its operands have one shape",
           "broadcast the condition to the shape of a");
  return {op.inputs[1]};
}

KernelCall select_kernel(const OpView&, std::span<const Split>) {
  return kernel_call("select");
}

// For a fixed condition the result is linear in both branches together.
ShardingRule select_rule(const OpView& op) {
  return elementwise_rule(op, {{1, 2}});
}

void select_reference(const ReferenceCall& call) {
  const std::vector<double>&condition = call.inputs[0]->values, &a = call.inputs[1]->values,
        &b = call.inputs[2]->values;
  for (size_t i = 0; i < a.size(); ++i) call.outputs[0].values[i] = condition[i] != 0 ? a[i] : b[i];
}

Gradients select_gradient(Builder& builder, const GradientCall& call) {
  // These are copies, because building moves the ops of the graph.
  const ValueId condition = call.op.inputs[0], a = call.op.inputs[1],
                dy = *call.output_gradients[0];
  const bool wants_a = call.wanted[1], wants_b = call.wanted[2];
  Gradients result(3);
  if (!is_float(builder.type(a).dtype) || (!wants_a && !wants_b)) return result;
  const ValueId zero = builder.constant(builder.type(a), 0);
  if (wants_a) result[1] = builder.select(condition, dy, zero, "a");
  if (wants_b) result[2] = builder.select(condition, zero, dy, "b");
  return result;
}

// ---- cast ----

std::vector<TensorType> infer_cast(const OpView& op) {
  expect_operands("cast", op, 1);
  return {{dtype_attribute("cast", op), op.inputs[0].shape}};
}

/// A partial value of 16 bits is reduced before it is cast to f32, which would double the bytes
/// that are sent: its sums are computed in f32 anyway.
ShardingRule cast_rule(const OpView& op) {
  const DType from = op.inputs[0].dtype, to = op.outputs.at(0).dtype;
  const bool casts_parts = is_float(from) && is_float(to) && op.attributes.has(kCastsParts) &&
                           op.attributes.boolean(kCastsParts);
  return from == to || casts_parts ? elementwise_rule(op, {{0}}) : plain_rule(op);
}

KernelCall cast_kernel(const OpView&, std::span<const Split>) {
  return kernel_call("cast");
}

void cast_reference(const ReferenceCall& call) {
  const std::vector<double>& x = call.inputs[0]->values;
  ReferenceTensor& y = call.outputs[0];
  const NumberKind kind = traits(y.type.dtype).kind;
  for (size_t i = 0; i < x.size(); ++i)
    y.values[i] = kind == NumberKind::kBool      ? x[i] != 0
                  : kind == NumberKind::kInteger ? std::trunc(x[i])
                                                 : x[i];
}

Decision cast_decision(const OpView& op) {
  const bool jumps = is_float(op.inputs[0].dtype) && !is_float(op.outputs.at(0).dtype);
  return jumps ? Decision{.operands = {0}, .results = {0}} : Decision{};
}

std::vector<double> cast_tolerance(const ReferenceCall& call, int output) {
  std::vector<double> errors = exact(call, output);
  if (!is_float(call.outputs[0].type.dtype) || call.inputs[0]->type.dtype != DType::kI32)
    return errors;
  for (size_t i = 0; i < errors.size(); ++i) {
    const double value = call.outputs[0].values[i];
    errors[i] = rounding_error(value, integer_roundings(value));
  }
  return errors;
}

Gradients cast_gradient(Builder& builder, const GradientCall& call) {
  const bool flows = is_float(builder.type(call.op.inputs[0]).dtype) &&
                     is_float(builder.type(call.op.outputs[0]).dtype);
  if (!flows || !call.wanted[0]) return {std::nullopt};
  const DType dtype = builder.type(call.op.inputs[0]).dtype;
  return {detail::as_dtype(builder, *call.output_gradients[0], dtype)};
}

// ---- stop_gradient ----

std::vector<TensorType> infer_stop_gradient(const OpView& op) {
  expect_operands("stop_gradient", op, 1);
  return {op.inputs[0]};
}

ShardingRule stop_gradient_rule(const OpView& op) {
  return elementwise_rule(op, {{0}});
}
Work stop_gradient_work(const OpView& op) {
  return {Flops(0), operand_bytes(op)};
}
KernelCall stop_gradient_kernel(const OpView&, std::span<const Split>) {
  return kernel_call("copy");
}
void stop_gradient_reference(const ReferenceCall& call) {
  call.outputs[0].values = call.inputs[0]->values;
}

std::vector<Operator> list_choice_operators() {
  return {
      {"compare", PrecisionClass::kGiven, infer_compare, plain_rule, cheap_work, compare_kernel,
       compare_reference, exact, nullptr, compare_decision},
      {"not", PrecisionClass::kWide, infer_not, plain_rule, cheap_work, not_kernel, not_reference,
       exact, nullptr},
      {"select", PrecisionClass::kExact, infer_select, select_rule, cheap_work, select_kernel,
       select_reference, exact, select_gradient},
      {"cast", PrecisionClass::kGiven, infer_cast, cast_rule, cheap_work, cast_kernel,
       cast_reference, cast_tolerance, cast_gradient, cast_decision},
      {"stop_gradient", PrecisionClass::kExact, infer_stop_gradient, stop_gradient_rule,
       stop_gradient_work, stop_gradient_kernel, stop_gradient_reference, exact, nullptr},
  };
}

}  // namespace

std::span<const Operator> choice_operators() {
  static const std::vector<Operator> list = list_choice_operators();
  return list;
}

}  // namespace tessera
