#include "ir/ops/builder.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "ir/ops/detail.h"
#include "ir/ops/operator_set.h"
#include "kernels/element_types.h"
#include "kernels/kernel.h"

namespace tessera {
namespace {

std::vector<int64_t> extents_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

[[noreturn]] void refuse_initializer(const std::string& name, const TensorType& type,
                                     const Initializer& initializer) {
  throw UserError(
      "variable '" + name + "': " + to_text(initializer) + " cannot fill " + to_text(type),
      "random numbers are f32", "begin it with a constant, or make it f32", ExitCode::kBadData);
}

[[noreturn]] void refuse_broadcast(const std::string& name, const TensorType& type,
                                   const Shape& shape) {
  throw UserError("broadcast '" + name + "': x " + to_text(type) + " has more dims than [" +
                      to_text(shape) + "]",
                  "broadcasting over leading dims adds dims and drops none",
                  "reduce or reshape the operand first", ExitCode::kBadData);
}

void refuse_types_without_kernels(const OpView& op, const std::vector<TensorType>& types,
                                  const std::string& what) {
  for (size_t i = 0; i < types.size(); ++i)
    if (!may_be_operand(types[i].dtype))
      detail::refuse(
          op.definition->name, op, what + " " + std::to_string(i) + " is " + to_text(types[i]),
          "built-in operators compute with f32, f16, bf16, i32 and bool; tensors of other "
          "element types are stored and moved only",
          "use one of these types, or bring an operator of your own");
}

}  // namespace

Builder::Scope::Scope(Builder& builder, std::string_view name)
    : builder_(builder), length_(builder.scope_.size()) {
  builder.scope_ = builder.path(name);
}

Builder::Scope::~Scope() {
  builder_.scope_.resize(length_);
}

std::string Builder::path(std::string_view name) const {
  return scope_.empty() ? std::string(name) : scope_ + "." + std::string(name);
}

std::vector<ValueId> Builder::op(std::string_view kind, std::vector<ValueId> inputs,
                                 Attributes attributes, std::string_view name,
                                 std::vector<GraphPtr> regions) {
  const Operator& definition = find_operator(graph_, kind);
  const std::string full = graph_.unique_name(path(name.empty() ? kind : name));
  OpView view{full, attributes, {}, {}, &definition, regions};
  for (ValueId input : inputs) view.inputs.push_back(type(input));
  const std::vector<TensorType> outputs = definition.infer(view);
  if (!graph_.operators() || !graph_.operators()->find(kind)) {
    refuse_types_without_kernels(view, view.inputs, "operand");
    refuse_types_without_kernels(view, outputs, "result");
  }
  const OpId id = graph_.add_op(full, std::string(kind), std::move(attributes), std::move(inputs),
                                outputs, role_, origin_, std::move(regions));
  return graph_.op(id).outputs;
}

ValueId Builder::op1(std::string_view kind, std::vector<ValueId> inputs, Attributes attributes,
                     std::string_view name) {
  const std::vector<ValueId> results = op(kind, std::move(inputs), std::move(attributes), name);
  ensure(results.size() == 1,
         [&] { return "'" + std::string(kind) + "' has more than one result"; });
  return results[0];
}

ValueId Builder::input(std::string_view name, const TensorType& type) {
  return graph_.add_input(graph_.unique_name(path(name)), type);
}

ValueId Builder::variable(std::string_view name, const TensorType& type,
                          const Initializer& initializer, bool trainable) {
  const std::string full = graph_.unique_name(path(name));
  if (initializer.kind != Initializer::Kind::kConstant && type.dtype != DType::kF32)
    refuse_initializer(full, type, initializer);
  return graph_.add_variable(full, type, initializer, trainable, origin_);
}

ValueId Builder::dot(ValueId a, ValueId b, std::string_view spec, std::string_view name) {
  return op1("dot_general", {a, b}, {{"spec", std::string(spec)}}, name);
}

ValueId Builder::add(ValueId a, ValueId b, std::string_view name) {
  return op1("add", {a, b}, {}, name);
}
ValueId Builder::sub(ValueId a, ValueId b, std::string_view name) {
  return op1("sub", {a, b}, {}, name);
}
ValueId Builder::mul(ValueId a, ValueId b, std::string_view name) {
  return op1("mul", {a, b}, {}, name);
}
ValueId Builder::div(ValueId a, ValueId b, std::string_view name) {
  return op1("div", {a, b}, {}, name);
}
ValueId Builder::maximum(ValueId a, ValueId b, std::string_view name) {
  return op1("max", {a, b}, {}, name);
}
ValueId Builder::minimum(ValueId a, ValueId b, std::string_view name) {
  return op1("min", {a, b}, {}, name);
}
ValueId Builder::unary(std::string_view kind, ValueId x, std::string_view name) {
  return op1(kind, {x}, {}, name);
}
ValueId Builder::add_scalar(ValueId x, double c, std::string_view name) {
  return op1("add_scalar", {x}, {{"value", c}}, name);
}
ValueId Builder::mul_scalar(ValueId x, double c, std::string_view name) {
  return op1("mul_scalar", {x}, {{"value", c}}, name);
}
ValueId Builder::max_scalar(ValueId x, double c, std::string_view name) {
  return op1("max_scalar", {x}, {{"value", c}}, name);
}
ValueId Builder::min_scalar(ValueId x, double c, std::string_view name) {
  return op1("min_scalar", {x}, {{"value", c}}, name);
}
ValueId Builder::pow_scalar(ValueId x, double c, std::string_view name) {
  return op1("pow_scalar", {x}, {{"value", c}}, name);
}

ValueId Builder::compare(std::string_view relation, ValueId a, ValueId b, std::string_view name) {
  return op1("compare", {a, b}, {{"relation", std::string(relation)}}, name);
}

ValueId Builder::select(ValueId condition, ValueId a, ValueId b, std::string_view name) {
  return op1("select", {condition, a, b}, {}, name);
}

ValueId Builder::cast(ValueId x, DType dtype, std::string_view name) {
  return op1("cast", {x}, {{"dtype", std::string(to_text(dtype))}}, name);
}

ValueId Builder::constant(const TensorType& type, double value, std::string_view name) {
  return op1("constant", {},
             {{"dtype", std::string(to_text(type.dtype))},
              {"shape", extents_of(type.shape)},
              {"value", value}},
             name);
}

ValueId Builder::iota(const TensorType& type, int dim, std::string_view name) {
  return op1("iota", {},
             {{"dtype", std::string(to_text(type.dtype))},
              {"shape", extents_of(type.shape)},
              {"dim", int64_t{dim}}},
             name);
}

ValueId Builder::broadcast(ValueId x, const Shape& shape, const std::vector<int64_t>& dims,
                           std::string_view name) {
  return op1("broadcast", {x}, {{"shape", extents_of(shape)}, {"dims", dims}}, name);
}

ValueId Builder::broadcast_leading(ValueId x, const Shape& shape, std::string_view name) {
  const Shape& from = this->shape(x);
  if (from == shape) return x;
  if (from.size() > shape.size())
    refuse_broadcast(path(name.empty() ? "broadcast" : name), type(x), shape);
  std::vector<int64_t> dims(from.size());
  std::iota(dims.begin(), dims.end(), shape.size() - from.size());
  return broadcast(x, shape, dims, name);
}

ValueId Builder::reshape(ValueId x, const Shape& shape, std::string_view name) {
  return op1("reshape", {x}, {{"shape", extents_of(shape)}}, name);
}

ValueId Builder::transpose(ValueId x, const std::vector<int64_t>& permutation,
                           std::string_view name) {
  return op1("transpose", {x}, {{"permutation", permutation}}, name);
}

ValueId Builder::slice(ValueId x, const std::vector<int64_t>& start,
                       const std::vector<int64_t>& limit, const std::vector<int64_t>& stride,
                       std::string_view name) {
  return op1("slice", {x}, {{"start", start}, {"limit", limit}, {"stride", stride}}, name);
}

ValueId Builder::pad(ValueId x, const std::vector<int64_t>& low, const Shape& shape, double value,
                     std::string_view name) {
  return op1("pad", {x}, {{"low", low}, {"shape", extents_of(shape)}, {"value", value}}, name);
}

ValueId Builder::concat(const std::vector<ValueId>& parts, int dim, std::string_view name) {
  return op1("concat", parts, {{"dim", int64_t{dim}}}, name);
}

ValueId Builder::reduce(ReduceOp op, ValueId x, const std::vector<int64_t>& dims,
                        std::string_view name) {
  return op1("reduce", {x}, {{"op", std::string(to_text(op))}, {"dims", dims}}, name);
}

ValueId Builder::gather(ValueId table, ValueId ids, std::string_view name) {
  return op1("gather", {table, ids}, {}, name);
}

ValueId Builder::scatter_add(ValueId ids, ValueId updates, int64_t rows, std::string_view name) {
  return op1("scatter_add", {ids, updates}, {{"rows", rows}}, name);
}

ValueId Builder::dynamic_slice(ValueId x, const std::vector<ValueId>& starts,
                               const std::vector<int64_t>& dims, const std::vector<int64_t>& sizes,
                               std::string_view name) {
  std::vector<ValueId> operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return op1("dynamic_slice", std::move(operands), {{"dims", dims}, {"sizes", sizes}}, name);
}

ValueId Builder::dynamic_update(ValueId x, ValueId update, const std::vector<ValueId>& starts,
                                const std::vector<int64_t>& dims, std::string_view name) {
  std::vector<ValueId> operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return op1("dynamic_update", std::move(operands), {{"dims", dims}}, name);
}

ValueId Builder::random_uniform(ValueId step, const Shape& shape, std::string_view name,
                                std::optional<ValueId> iteration) {
  const std::string_view given = name.empty() ? "random_uniform" : name;
  const uint64_t key = random_key(seed_, graph_.unique_name(path(given)));
  std::vector<ValueId> counter{step};
  if (iteration) counter.push_back(*iteration);
  return op1("random_uniform", std::move(counter),
             {{"shape", extents_of(shape)}, {"key", static_cast<int64_t>(key)}}, given);
}

ValueId Builder::stop_gradient(ValueId x, std::string_view name) {
  return op1("stop_gradient", {x}, {}, name);
}

Builder::Attention Builder::attention(ValueId q, ValueId k, ValueId v, bool causal, double scale,
                                      std::string_view name) {
  const std::vector<ValueId> results =
      op("attention", {q, k, v}, {{"causal", causal}, {"scale", scale}}, name);
  return {results.at(0), results.at(1)};
}

}  // namespace tessera
