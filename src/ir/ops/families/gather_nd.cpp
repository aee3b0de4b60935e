// gather_nd, scatter_nd and scatter_add_nd: rows of a table with several leading dims, selected by
// one index for each of these dims.
//
//     gather_nd(table [R.., T..], ids [I.., k]) -> [I.., T..]
//         out[i.., t..] = table[ids[i.., 0], .., ids[i.., k - 1], t..]
//
// k is the number of the dims R. As in gather, an index outside its dim reads zeros and writes
// nothing.
//   source  the definition is that of ONNX GatherND and ScatterND, where such an index is an error
#include <array>
#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/cast_as.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"

namespace tessera {
namespace {

using detail::Gradients;

/// The dims [first, last) of `shape`.
Shape part_of(const Shape& shape, int first, int last) {
  Shape part;
  for (int d = first; d < last; ++d) part.push_back(shape[d]);
  return part;
}

Shape joined(Shape head, const Shape& tail) {
  for (int64_t extent : tail) head.push_back(extent);
  return head;
}

/// The shapes of an op: table [R.., T..], ids [I.., k], updates or result [I.., T..].
struct Parts {
  Shape rows, row, index;  // R, T, I
};

int depth_of(const Shape& ids) {
  return ids.empty() ? 0 : static_cast<int>(ids[ids.size() - 1]);
}

Parts parts_of(const Shape& table, const Shape& ids) {
  const int depth = depth_of(ids);
  return {part_of(table, 0, depth), part_of(table, depth, table.size()),
          part_of(ids, 0, ids.size() - 1)};
}

void check_ids(std::string_view kind, const OpView& op, int input, const TensorType& table) {
  detail::expect_dtype(kind, op, input, "ids", {DType::kI32});
  const TensorType& ids = op.inputs[input];
  const bool fits = !ids.shape.empty() && ids.shape[ids.shape.size() - 1] <= table.shape.size();
  if (!fits)
    detail::refuse(kind, op, "ids " + to_text(ids) + " do not fit the table " + to_text(table),
                   "the last dim of ids holds one index for each of the first dims of the table",
                   "give ids a last dim of at most " + std::to_string(table.shape.size()));
}

void check_updates(std::string_view kind, const OpView& op, int input, const TensorType& expected) {
  const TensorType& updates = op.inputs[input];
  if (updates == expected) return;
  detail::refuse(
      kind, op,
      "updates " + to_text(updates) + " do not fit: " + to_text(expected) + " are expected",
      "updates have the dims of ids but the last, then those of a row of the table",
      "reshape or broadcast the updates");
}

/// The factors of the rows come first, so that factor j is the one of dim j of the table.
struct Factors {
  OperandFactors table, ids, updates;
};

Factors add_parts(ShardingRule& rule, const Parts& parts, DType dtype, FactorKind of_rows,
                  FactorKind of_index) {
  OperandFactors rows, index;
  for (int d = 0; d < parts.rows.size(); ++d) {
    const ReduceOp reduce = dtype == DType::kBool ? ReduceOp::kAny : ReduceOp::kSum;
    rows.push_back(
        {detail::add_factor(rule, "r" + std::to_string(d), parts.rows[d], of_rows, reduce), 1});
  }
  for (int d = 0; d < parts.index.size(); ++d)
    index.push_back(
        {detail::add_factor(rule, "i" + std::to_string(d), parts.index[d], of_index), 1});
  const OperandFactors row = detail::add_factors(rule, parts.row, "t");
  const int depth = detail::add_factor(rule, "k", parts.rows.size(), FactorKind::kWhole);
  return {detail::joined(rows, row), detail::joined(index, {{depth, 1}}),
          detail::joined(index, row)};
}

/// A kernel call with the begins of the rows of its part.
KernelCall rows_kernel(std::string name, int depth, std::span<const Split> factors) {
  KernelCall call = detail::kernel_call(std::move(name));
  for (int d = 0; d < depth; ++d) call.ints.push_back(LocalInt::begin_of(factors[d]));
  return call;
}

/// Calls visit(first element of the update, first element of the row, elements of a row) for each
/// index in the table, in order.
template <typename Visit>
void for_each_row(const ReferenceTensor& ids, const Shape& table, Visit visit) {
  const Parts parts = parts_of(table, ids.type.shape);
  const size_t depth = parts.rows.size();
  const size_t width = element_count(parts.row);
  const size_t count = element_count(parts.index);
  for (size_t i = 0; i < count; ++i) {
    Dims index;
    bool inside = true;
    for (size_t j = 0; j < depth; ++j) {
      index.push_back(static_cast<int64_t>(ids.values[i * depth + j]));
      inside = inside && index[j] >= 0 && index[j] < parts.rows[j];
    }
    if (inside) visit(i * width, row_major_index(index, parts.rows) * width, width);
  }
}

// gather_nd

std::vector<TensorType> infer_gather_nd(const OpView& op) {
  detail::expect_operands("gather_nd", op, 2);
  check_ids("gather_nd", op, 1, op.inputs[0]);
  const Parts parts = parts_of(op.inputs[0].shape, op.inputs[1].shape);
  if (parts.index.size() + parts.row.size() > kMaxRank)
    detail::refuse("gather_nd", op,
                   "table " + to_text(op.inputs[0]) + " and ids " + to_text(op.inputs[1]) +
                       " make too many dims",
                   "the result has the dims of ids but the last, then those of a row: at most " +
                       std::to_string(kMaxRank),
                   "reshape ids to fewer dims");
  return {{op.inputs[0].dtype, joined(parts.index, parts.row)}};
}

ShardingRule rule_gather_nd(const OpView& op) {
  ShardingRule rule;
  const Parts parts = parts_of(op.inputs[0].shape, op.inputs[1].shape);
  const Factors factors = add_parts(rule, parts, op.inputs[0].dtype, FactorKind::kMaskedReduction,
                                    FactorKind::kParallel);
  rule.inputs = {factors.table, factors.ids};
  rule.outputs = {factors.updates};
  rule.linear = {{0}};
  return rule;
}

/// Reads the rows that ids select, not the whole table.
Work work_gather_nd(const OpView& op) {
  const Bytes rows = byte_size(op.outputs.at(0));
  return {Flops(0), byte_size(op.inputs[1]) + rows + rows};
}

KernelCall kernel_gather_nd(const OpView& op, std::span<const Split> factors) {
  return rows_kernel("gather_nd", depth_of(op.inputs[1].shape), factors);
}

void reference_gather_nd(const ReferenceCall& call) {
  const ReferenceTensor& table = *call.inputs[0];
  for_each_row(*call.inputs[1], table.type.shape, [&](size_t out, size_t row, size_t width) {
    for (size_t t = 0; t < width; ++t) call.outputs[0].values[out + t] = table.values[row + t];
  });
}

Gradients gradient_gather_nd(Builder& builder, const GradientCall& call) {
  const TensorType table = builder.type(call.op.inputs[0]);
  if (!call.wanted[0] || !is_float(table.dtype)) return {std::nullopt, std::nullopt};
  const Shape rows = parts_of(table.shape, builder.shape(call.op.inputs[1])).rows;
  const Attributes attributes{{"rows", std::vector<int64_t>(rows.begin(), rows.end())}};
  return {builder.op1("scatter_add_nd", {call.op.inputs[1], call.output_gradients.at(0).value()},
                      attributes, "table"),
          std::nullopt};
}

// scatter_add_nd

/// [R.., T..], with as many dims R as the last extent of ids.
Shape summed_shape(const OpView& op) {
  const Shape rows = detail::shape_attribute("scatter_add_nd", op, "rows");
  const Shape &ids = op.inputs[0].shape, &updates = op.inputs[1].shape;
  return joined(rows, part_of(updates, ids.size() - 1, updates.size()));
}

std::vector<TensorType> infer_scatter_add_nd(const OpView& op) {
  constexpr std::string_view kName = "scatter_add_nd";
  detail::expect_operands(kName, op, 2);
  detail::expect_dtype(kName, op, 0, "ids", {DType::kI32});
  detail::expect_dtype(kName, op, 1, "updates", {DType::kF32});
  const Shape &ids = op.inputs[0].shape, &updates = op.inputs[1].shape;
  const Shape rows = detail::shape_attribute(kName, op, "rows");
  if (ids.empty() || depth_of(ids) != rows.size())
    detail::refuse(
        kName, op, "ids " + to_text(op.inputs[0]) + " do not fit rows [" + to_text(rows) + "]",
        "the last dim of ids holds one index for each of the dims of rows",
        "give ids a last dim of " + std::to_string(rows.size()) + ", or correct the rows");
  const bool begins = updates.size() >= ids.size() - 1 &&
                      part_of(updates, 0, ids.size() - 1) == part_of(ids, 0, ids.size() - 1);
  if (!begins || updates.size() - (ids.size() - 1) + rows.size() > kMaxRank)
    detail::refuse(
        kName, op, "updates " + to_text(op.inputs[1]) + " do not fit ids " + to_text(op.inputs[0]),
        "updates have the dims of ids but the last, then those of a row; the result at most " +
            std::to_string(kMaxRank),
        "reshape or broadcast the operand that is wrong");
  return {{detail::sum_dtype(kName, op, op.inputs[1].dtype), summed_shape(op)}};
}

ShardingRule rule_scatter_add_nd(const OpView& op) {
  ShardingRule rule;
  const Parts parts = parts_of(summed_shape(op), op.inputs[0].shape);
  const Factors factors =
      add_parts(rule, parts, DType::kF32, FactorKind::kParallel, FactorKind::kReduction);
  rule.inputs = {factors.ids, factors.updates};
  rule.outputs = {factors.table};
  rule.linear = {{1}};
  return rule;
}

Work work_scatter_add_nd(const OpView& op) {
  return {Flops(detail::elements_of(op.inputs[1].shape)), detail::operand_bytes(op)};
}

KernelCall kernel_scatter_add_nd(const OpView& op, std::span<const Split> factors) {
  return rows_kernel("scatter_add_nd", depth_of(op.inputs[0].shape), factors);
}

/// Adds term(update) to the row of each index.
template <typename Term>
void add_updates_nd(const ReferenceCall& call, std::vector<double>& out, Term term) {
  const std::vector<double>& updates = call.inputs[1]->values;
  for_each_row(*call.inputs[0], call.outputs[0].type.shape,
               [&](size_t update, size_t row, size_t width) {
                 for (size_t t = 0; t < width; ++t) out[row + t] += term(updates[update + t]);
               });
}

void reference_scatter_add_nd(const ReferenceCall& call) {
  add_updates_nd(call, call.outputs[0].values, [](double update) { return update; });
}

std::vector<double> tolerance_scatter_add_nd(const ReferenceCall& call, int output) {
  std::vector<double> terms(call.outputs[0].values.size(), 0.0), errors(terms.size(), 0.0);
  add_updates_nd(call, terms, [](double) { return 1.0; });
  add_updates_nd(call, errors, [](double update) { return std::abs(update); });
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] = detail::summation_error(terms[i], errors[i], call.outputs[output].type.dtype);
  return errors;
}

Gradients gradient_scatter_add_nd(Builder& builder, const GradientCall& call) {
  if (!call.wanted[1]) return {std::nullopt, std::nullopt};
  return {std::nullopt, builder.op1("gather_nd",
                                    {detail::as_dtype(builder, call.output_gradients.at(0).value(),
                                                      builder.type(call.op.inputs[1]).dtype),
                                     call.op.inputs[0]},
                                    {}, "updates")};
}

// scatter_nd

std::vector<TensorType> infer_scatter_nd(const OpView& op) {
  detail::expect_operands("scatter_nd", op, 3);
  check_ids("scatter_nd", op, 1, op.inputs[0]);
  const Parts parts = parts_of(op.inputs[0].shape, op.inputs[1].shape);
  const bool too_many = parts.index.size() + parts.row.size() > kMaxRank;
  if (!too_many)
    check_updates("scatter_nd", op, 2, {op.inputs[0].dtype, joined(parts.index, parts.row)});
  if (too_many)
    detail::refuse("scatter_nd", op,
                   "table " + to_text(op.inputs[0]) + " and ids " + to_text(op.inputs[1]) +
                       " ask for too many dims",
                   "updates have the dims of ids but the last, then those of a row: at most " +
                       std::to_string(kMaxRank),
                   "reshape ids to fewer dims");
  return {op.inputs[0]};
}

/// Of two updates of one row the later one stays. Only a rank that has both can know that, so ids
/// stay whole.
ShardingRule rule_scatter_nd(const OpView& op) {
  ShardingRule rule;
  const Parts parts = parts_of(op.inputs[0].shape, op.inputs[1].shape);
  const Factors factors =
      add_parts(rule, parts, op.inputs[0].dtype, FactorKind::kParallel, FactorKind::kWhole);
  rule.inputs = {factors.table, factors.ids, factors.updates};
  rule.outputs = {factors.table};
  rule.linear = {{0, 2}};
  return rule;
}

/// In place it writes only the rows that ids select.
Work work_scatter_nd(const OpView& op) {
  const Bytes rows = byte_size(op.inputs[2]);
  return {Flops(0), byte_size(op.inputs[1]) + rows + rows};
}

KernelCall kernel_scatter_nd(const OpView& op, std::span<const Split> factors) {
  return rows_kernel("scatter_nd", depth_of(op.inputs[1].shape), factors);
}

void reference_scatter_nd(const ReferenceCall& call) {
  ReferenceTensor& out = call.outputs[0];
  out.values = call.inputs[0]->values;
  for_each_row(*call.inputs[1], out.type.shape, [&](size_t update, size_t row, size_t width) {
    for (size_t t = 0; t < width; ++t) out.values[row + t] = call.inputs[2]->values[update + t];
  });
}

/// A bool in the shape of the updates: is the update the one that stays? It is when its number is
/// found again in its row.
ValueId stays(Builder& builder, ValueId ids, const Parts& parts, const Shape& updates) {
  const int64_t count = element_count(parts.index);
  const ValueId numbers = builder.reshape(builder.iota({DType::kI32, {count}}, 0), parts.index);
  const ValueId nobody = builder.constant({DType::kI32, parts.rows}, -1);
  const ValueId owner = builder.op1("scatter_nd", {nobody, ids, numbers}, {}, "owner");
  const ValueId found = builder.op1("gather_nd", {owner, ids}, {}, "found");
  const ValueId equal = builder.compare("eq", found, numbers);
  std::vector<int64_t> dims;
  for (int d = 0; d < parts.index.size(); ++d) dims.push_back(d);
  return builder.broadcast(equal, updates, dims, "stays");
}

/// An overwritten row has no gradient, and neither has an update that a later one overwrites.
Gradients gradient_scatter_nd(Builder& builder, const GradientCall& call) {
  Gradients result(3);
  const ValueId ids = call.op.inputs[1], flow = call.output_gradients.at(0).value();
  const TensorType table = builder.type(call.op.inputs[0]),
                   updates = builder.type(call.op.inputs[2]);
  if (!is_float(table.dtype)) return result;
  const bool wants_updates = call.wanted[2];
  const ValueId zeros = builder.constant(updates, 0);
  if (call.wanted[0]) result[0] = builder.op1("scatter_nd", {flow, ids, zeros}, {}, "x");
  if (!wants_updates) return result;
  const Parts parts = parts_of(table.shape, builder.shape(ids));
  const ValueId kept = stays(builder, ids, parts, updates.shape);
  const ValueId taken = builder.op1("gather_nd", {flow, ids});
  result[2] = builder.select(kept, taken, zeros, "updates");
  return result;
}

}  // namespace

std::span<const Operator> gather_nd_operators() {
  static const std::array operators{Operator{.name = "gather_nd",
                                             .precision = PrecisionClass::kLookup,
                                             .infer = infer_gather_nd,
                                             .rule = rule_gather_nd,
                                             .work = work_gather_nd,
                                             .kernel = kernel_gather_nd,
                                             .reference = reference_gather_nd,
                                             .tolerance = detail::exact,
                                             .gradient = gradient_gather_nd},
                                    Operator{.name = "scatter_nd",
                                             .precision = PrecisionClass::kGiven,
                                             .infer = infer_scatter_nd,
                                             .rule = rule_scatter_nd,
                                             .work = work_scatter_nd,
                                             .kernel = kernel_scatter_nd,
                                             .reference = reference_scatter_nd,
                                             .tolerance = detail::exact,
                                             .gradient = gradient_scatter_nd},
                                    Operator{.name = "scatter_add_nd",
                                             .infer = infer_scatter_add_nd,
                                             .rule = rule_scatter_add_nd,
                                             .work = work_scatter_add_nd,
                                             .kernel = kernel_scatter_add_nd,
                                             .reference = reference_scatter_add_nd,
                                             .tolerance = tolerance_scatter_add_nd,
                                             .gradient = gradient_scatter_add_nd}};
  return operators;
}

}  // namespace tessera
