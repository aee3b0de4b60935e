// gather and scatter_add: rows of a table, selected by number. Each is the gradient of the other.
#include <array>
#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/cast_as.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"

namespace tessera {
namespace {

/// Both rules begin with the rows of the table.
constexpr int kRowsFactor = 0;

Shape rows_shape(const Shape& ids, const Shape& table) {
  Shape shape = ids;
  for (int d = 1; d < table.size(); ++d) shape.push_back(table[d]);
  return shape;
}

/// Extents of `shape` from dim `first` on.
Shape tail_of(const Shape& shape, int first) {
  Shape tail;
  for (int d = first; d < shape.size(); ++d) tail.push_back(shape[d]);
  return tail;
}

KernelCall rows_kernel(std::string name, std::span<const Split> factors) {
  return detail::kernel_call(std::move(name), {LocalInt::begin_of(factors[kRowsFactor])});
}

// gather

std::vector<TensorType> infer_gather(const OpView& op) {
  detail::expect_operands("gather", op, 2);
  detail::expect_dtype("gather", op, 0, "table", {DType::kF32, DType::kI32});
  detail::expect_dtype("gather", op, 1, "ids", {DType::kI32});
  const Shape& table = op.inputs[0].shape;
  const Shape& ids = op.inputs[1].shape;
  if (table.empty())
    detail::refuse("gather", op, "table " + to_text(op.inputs[0]) + " has no rows",
                   "gather takes rows of dim 0 of a table", "give a table of at least one dim");
  if (ids.size() + table.size() - 1 > kMaxRank)
    detail::refuse(
        "gather", op,
        "table " + to_text(op.inputs[0]) + " and ids " + to_text(op.inputs[1]) +
            " make too many dims",
        "the result has the dims of ids, then those of a row: at most " + std::to_string(kMaxRank),
        "reshape ids to fewer dims");
  return {{op.inputs[0].dtype, rows_shape(ids, table)}};
}

/// A rank that holds a range of the rows leaves zeros for the ids outside it. At most one rank has
/// each row, so the parts add up exactly.
ShardingRule rule_gather(const OpView& op) {
  ShardingRule rule;
  const int rows = detail::add_factor(rule, "rows", op.inputs[0].shape[0],
                                      FactorKind::kMaskedReduction, ReduceOp::kSum);
  const OperandFactors ids = detail::add_factors(rule, op.inputs[1].shape, "i");
  const OperandFactors row = detail::add_factors(rule, tail_of(op.inputs[0].shape, 1), "t");
  rule.inputs = {detail::joined({{rows, 1}}, row), ids};
  rule.outputs = {detail::joined(ids, row)};
  rule.linear = {{0}};
  return rule;
}

/// Reads the ids and the rows that they select, not the whole table.
Work work_gather(const OpView& op) {
  const Bytes rows = byte_size(op.outputs.at(0));
  return {Flops(0), byte_size(op.inputs[1]) + rows + rows};
}

KernelCall kernel_gather(const OpView&, std::span<const Split> factors) {
  return rows_kernel("gather", factors);
}

void reference_gather(const ReferenceCall& call) {
  const ReferenceTensor& table = *call.inputs[0];
  const auto rows = static_cast<double>(table.type.shape[0]);
  const size_t width = element_count(tail_of(table.type.shape, 1));
  for (size_t i = 0; i < call.inputs[1]->values.size(); ++i) {
    const double id = call.inputs[1]->values[i];
    if (id < 0 || id >= rows) continue;
    for (size_t t = 0; t < width; ++t)
      call.outputs[0].values[i * width + t] = table.values[static_cast<size_t>(id) * width + t];
  }
}

std::vector<std::optional<ValueId>> gradient_gather(Builder& builder, const GradientCall& call) {
  if (!call.wanted[0]) return {std::nullopt, std::nullopt};
  const int64_t rows = builder.shape(call.op.inputs[0])[0];
  return {
      builder.scatter_add(call.op.inputs[1], call.output_gradients.at(0).value(), rows, "table"),
      std::nullopt};
}

// scatter_add

std::vector<TensorType> infer_scatter_add(const OpView& op) {
  detail::expect_operands("scatter_add", op, 2);
  detail::expect_dtype("scatter_add", op, 0, "ids", {DType::kI32});
  detail::expect_dtype("scatter_add", op, 1, "updates", {DType::kF32});
  const Shape& ids = op.inputs[0].shape;
  const Shape& updates = op.inputs[1].shape;
  bool fits = updates.size() >= ids.size();
  for (int d = 0; fits && d < ids.size(); ++d) fits = ids[d] == updates[d];
  if (!fits)
    detail::refuse("scatter_add", op,
                   "updates " + to_text(op.inputs[1]) + " do not fit ids " + to_text(op.inputs[0]),
                   "each id has one update: the dims of updates begin with those of ids",
                   "reshape or broadcast the operand that is wrong");
  const int64_t rows = op.attributes.integer("rows");
  if (rows < 0)
    detail::refuse("scatter_add", op, "rows = " + std::to_string(rows),
                   "the result has that many rows", "give a number that is not negative");
  const Shape row = tail_of(updates, ids.size());
  if (row.size() == kMaxRank)
    detail::refuse(
        "scatter_add", op, "updates " + to_text(op.inputs[1]) + " make too many dims",
        "the result has the rows, then the dims of an update: at most " + std::to_string(kMaxRank),
        "reshape the updates");
  Shape shape{rows};
  for (int64_t extent : row) shape.push_back(extent);
  return {{detail::sum_dtype("scatter_add", op, op.inputs[1].dtype), shape}};
}

ShardingRule rule_scatter_add(const OpView& op) {
  const Shape& ids_shape = op.inputs[0].shape;
  ShardingRule rule;
  const int rows = detail::add_factor(rule, "rows", op.attributes.integer("rows"));
  OperandFactors ids;
  for (int d = 0; d < ids_shape.size(); ++d)
    ids.push_back({detail::add_factor(rule, "i" + std::to_string(d), ids_shape[d],
                                      FactorKind::kReduction, ReduceOp::kSum),
                   1});
  const OperandFactors row =
      detail::add_factors(rule, tail_of(op.inputs[1].shape, ids_shape.size()), "t");
  rule.inputs = {ids, detail::joined(ids, row)};
  rule.outputs = {detail::joined({{rows, 1}}, row)};
  rule.linear = {{1}};
  return rule;
}

Work work_scatter_add(const OpView& op) {
  return {Flops(detail::elements_of(op.inputs[1].shape)), detail::operand_bytes(op)};
}

KernelCall kernel_scatter_add(const OpView&, std::span<const Split> factors) {
  return rows_kernel("scatter_add", factors);
}

/// Adds term(update) to the row of each id.
template <typename Term>
void add_updates(const ReferenceCall& call, std::vector<double>& out, Term term) {
  const std::vector<double>& ids = call.inputs[0]->values;
  const std::vector<double>& updates = call.inputs[1]->values;
  const auto rows = static_cast<double>(call.outputs[0].type.shape[0]);
  const size_t width = element_count(tail_of(call.outputs[0].type.shape, 1));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= rows) continue;
    for (size_t t = 0; t < width; ++t)
      out[static_cast<size_t>(ids[i]) * width + t] += term(updates[i * width + t]);
  }
}

void reference_scatter_add(const ReferenceCall& call) {
  add_updates(call, call.outputs[0].values, [](double update) { return update; });
}

std::vector<double> tolerance_scatter_add(const ReferenceCall& call, int output) {
  std::vector<double> terms(call.outputs[0].values.size(), 0.0);
  std::vector<double> errors(terms.size(), 0.0);
  add_updates(call, terms, [](double) { return 1.0; });
  add_updates(call, errors, [](double update) { return std::abs(update); });
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] = detail::summation_error(terms[i], errors[i], call.outputs[output].type.dtype);
  return errors;
}

std::vector<std::optional<ValueId>> gradient_scatter_add(Builder& builder,
                                                         const GradientCall& call) {
  if (!call.wanted[1]) return {std::nullopt, std::nullopt};
  const ValueId flow = detail::as_dtype(builder, call.output_gradients.at(0).value(),
                                        builder.type(call.op.inputs[1]).dtype);
  return {std::nullopt, builder.gather(flow, call.op.inputs[0], "updates")};
}

}  // namespace

std::span<const Operator> gather_operators() {
  static const std::array operators{Operator{.name = "gather",
                                             .precision = PrecisionClass::kLookup,
                                             .infer = infer_gather,
                                             .rule = rule_gather,
                                             .work = work_gather,
                                             .kernel = kernel_gather,
                                             .reference = reference_gather,
                                             .tolerance = detail::exact,
                                             .gradient = gradient_gather},
                                    Operator{.name = "scatter_add",
                                             .infer = infer_scatter_add,
                                             .rule = rule_scatter_add,
                                             .work = work_scatter_add,
                                             .kernel = kernel_scatter_add,
                                             .reference = reference_scatter_add,
                                             .tolerance = tolerance_scatter_add,
                                             .gradient = gradient_scatter_add}};
  return operators;
}

}  // namespace tessera
