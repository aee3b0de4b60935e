// attention and attention_grad: softmax(scale q k^T + mask) v as one operator, because a
// composition of operators would hold all scores in memory.
//
//   source  Dao, FlashAttention-2, arXiv 2307.08691; log-sum-exp and the formulas of the gradient
//           are those of its section 2.3
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/ops/builder.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

using detail::Gradients;

// Positions of the operands; attention has the first three.
constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kOut = 3, kLogSumExp = 4, kOutGradient = 5;

/// Extents and parameters: q[batch, queries, heads, depth], k and v [batch, keys, heads, depth].
struct Extents {
  int64_t batch, queries, keys, heads, depth;
  bool causal;
  double scale;

  /// The position of element 0 of row (b, s or t, h) of a tensor of `rows` queries or keys.
  size_t row(int64_t b, int64_t position, int64_t h, int64_t rows) const {
    return ((b * rows + position) * heads + h) * depth;
  }
  size_t log_sum_exp(int64_t b, int64_t h, int64_t s) const {
    return (b * heads + h) * queries + s;
  }
  /// The number of keys that query s sees.
  int64_t visible(int64_t s) const { return causal ? std::min(s + 1, keys) : keys; }
};

Extents extents_of(const OpView& op) {
  const Shape& q = op.inputs[kQuery].shape;
  return {q[0],
          q[1],
          op.inputs[kKey].shape[1],
          q[2],
          q[3],
          op.attributes.boolean("causal"),
          op.attributes.number("scale")};
}

// Types

void expect_type(std::string_view kind, const OpView& op, size_t input, std::string_view letter,
                 const Shape& shape, const std::string& why) {
  if (op.inputs[input].shape == shape) return;
  detail::refuse(kind, op,
                 std::string(letter) + " " + to_text(op.inputs[input]) + " does not fit q " +
                     to_text(op.inputs[kQuery]),
                 why, "give it the shape [" + to_text(shape) + "]");
}

void expect_query_key_value(std::string_view kind, const OpView& op) {
  constexpr std::string_view kLetters[] = {"q", "k", "v"};
  for (int i = 1; i < 3; ++i) detail::expect_equal_dtypes(kind, op, 0, "q", i, kLetters[i]);
  for (size_t i = 0; i < 3; ++i) {
    detail::expect_dtype(kind, op, i, kLetters[i], {DType::kF32});
    if (op.inputs[i].shape.size() != 4)
      detail::refuse(
          kind, op,
          std::string(kLetters[i]) + " " + to_text(op.inputs[i]) + " has " +
              std::to_string(op.inputs[i].shape.size()) + " dims",
          std::string(kind) +
              " takes q[batch, queries, heads, depth] and k, v[batch, keys, heads, depth]",
          "reshape it to four dims, one head for each part of the depth");
  }
  const Shape& q = op.inputs[kQuery].shape;
  const Shape keys{q[0], op.inputs[kKey].shape[1], q[2], q[3]};
  const std::string why =
      "q, k and v have the same batch, heads and depth, k and v the same number of keys";
  expect_type(kind, op, kKey, "k", keys, why);
  expect_type(kind, op, kValue, "v", keys, why);
}

Shape log_sum_exp_shape(const Shape& q) {
  return {q[0], q[2], q[1]};
}

std::vector<TensorType> infer_attention(const OpView& op) {
  detail::expect_operands("attention", op, 3);
  expect_query_key_value("attention", op);
  return {op.inputs[kQuery], {DType::kF32, log_sum_exp_shape(op.inputs[kQuery].shape)}};
}

std::vector<TensorType> infer_gradient(const OpView& op) {
  detail::expect_operands("attention_grad", op, 6);
  expect_query_key_value("attention_grad", op);
  constexpr std::string_view kLetters[] = {"out", "lse", "dout"};
  for (size_t i = kOut; i <= kOutGradient; ++i)
    detail::expect_dtype("attention_grad", op, i, kLetters[i - kOut], {DType::kF32});
  const Shape& q = op.inputs[kQuery].shape;
  const std::string why =
      "out and its gradient have the shape of q, lse is [batch, heads, queries]";
  expect_type("attention_grad", op, kOut, "out", q, why);
  expect_type("attention_grad", op, kLogSumExp, "lse", log_sum_exp_shape(q), why);
  expect_type("attention_grad", op, kOutGradient, "dout", q, why);
  return {op.inputs[kQuery], op.inputs[kKey], op.inputs[kValue]};
}

// Rules, work and kernels

/// The factors of both operators, in this order. Each query needs all keys, and each score needs
/// all of the depth.
constexpr int kB = 0, kS = 1, kT = 2, kH = 3, kD = 4;

const OperandFactors kQueryFactors{{kB, 1}, {kS, 1}, {kH, 1}, {kD, 1}};
const OperandFactors kKeyFactors{{kB, 1}, {kT, 1}, {kH, 1}, {kD, 1}};
const OperandFactors kRowFactors{{kB, 1}, {kH, 1}, {kS, 1}};

ShardingRule rule_of(const OpView& op, FactorKind queries) {
  const Extents extents = extents_of(op);
  ShardingRule rule;
  detail::add_factor(rule, "b", extents.batch);
  detail::add_factor(rule, "s", extents.queries, queries, ReduceOp::kSum);
  detail::add_factor(rule, "t", extents.keys, FactorKind::kWhole);
  detail::add_factor(rule, "h", extents.heads);
  detail::add_factor(rule, "d", extents.depth, FactorKind::kWhole);
  return rule;
}

ShardingRule rule_attention(const OpView& op) {
  ShardingRule rule = rule_of(op, FactorKind::kParallel);
  rule.inputs = {kQueryFactors, kKeyFactors, kKeyFactors};
  rule.outputs = {kQueryFactors, kRowFactors};
  return rule;
}

/// The gradients of k and v are sums over the queries.
ShardingRule rule_gradient(const OpView& op) {
  ShardingRule rule = rule_of(op, FactorKind::kReduction);
  rule.inputs = {kQueryFactors, kKeyFactors, kKeyFactors,
                 kQueryFactors, kRowFactors, kQueryFactors};
  rule.outputs = {kQueryFactors, kKeyFactors, kKeyFactors};
  return rule;
}

/// Two products of queries x keys x depth: the scores, and the sum of the values weighted with
/// them. A causal mask leaves half of a square.
double attention_flops(const OpView& op) {
  const Extents e = extents_of(op);
  const auto queries = static_cast<double>(e.queries), keys = static_cast<double>(e.keys);
  const double square = std::min(queries, keys);
  const double pairs = e.causal ? square * square / 2 + (queries - square) * keys : queries * keys;
  return 4 * pairs * static_cast<double>(e.batch) * static_cast<double>(e.heads) *
         static_cast<double>(e.depth);
}

Work work_attention(const OpView& op) {
  return {Flops(attention_flops(op)), detail::operand_bytes(op)};
}

/// Five products instead of two: the scores again, the gradient of the probabilities, and the
/// gradients of q, k and v.
Work work_gradient(const OpView& op) {
  return {Flops(2.5 * attention_flops(op)), detail::operand_bytes(op)};
}

KernelCall attention_kernel(std::string name, const OpView& op, std::span<const Split> factors) {
  return detail::kernel_call(
      std::move(name),
      {LocalInt(op.attributes.boolean("causal") ? 1 : 0), LocalInt::begin_of(factors[kS])},
      {op.attributes.number("scale")});
}

KernelCall kernel_attention(const OpView& op, std::span<const Split> factors) {
  return attention_kernel("attention", op, factors);
}
KernelCall kernel_gradient(const OpView& op, std::span<const Split> factors) {
  return attention_kernel("attention_grad", op, factors);
}

// Reference

double dot(const double* a, const double* b, int64_t depth) {
  double sum = 0;
  for (int64_t d = 0; d < depth; ++d) sum += a[d] * b[d];
  return sum;
}

double magnitude_dot(const double* a, const double* b, int64_t depth) {
  double sum = 0;
  for (int64_t d = 0; d < depth; ++d) sum += std::abs(a[d] * b[d]);
  return sum;
}

/// Calls visit(b, h, s) for every query.
template <typename Visit>
void for_each_query(const Extents& e, Visit visit) {
  for (int64_t b = 0; b < e.batch; ++b)
    for (int64_t h = 0; h < e.heads; ++h)
      for (int64_t s = 0; s < e.queries; ++s) visit(b, h, s);
}

/// The softmax of one query over the keys that it sees.
struct Softmax {
  std::vector<double> scores;
  std::vector<double> probabilities;
  double maximum = -std::numeric_limits<double>::infinity();
  double log_sum_exp = -std::numeric_limits<double>::infinity();
};

Softmax softmax_of(const Extents& e, const ReferenceCall& call, int64_t b, int64_t h, int64_t s) {
  const double* q = call.inputs[kQuery]->values.data() + e.row(b, s, h, e.queries);
  Softmax row;
  for (int64_t t = 0; t < e.visible(s); ++t) {
    row.scores.push_back(
        e.scale * dot(q, call.inputs[kKey]->values.data() + e.row(b, t, h, e.keys), e.depth));
    row.maximum = std::max(row.maximum, row.scores.back());
  }
  double sum = 0;
  for (double score : row.scores) sum += std::exp(score - row.maximum);
  if (!row.scores.empty()) row.log_sum_exp = row.maximum + std::log(sum);
  for (double score : row.scores) row.probabilities.push_back(std::exp(score - row.maximum) / sum);
  return row;
}

void reference_attention(const ReferenceCall& call) {
  const Extents e = extents_of(call.op);
  for_each_query(e, [&](int64_t b, int64_t h, int64_t s) {
    const Softmax row = softmax_of(e, call, b, h, s);
    double* out = call.outputs[0].values.data() + e.row(b, s, h, e.queries);
    for (int64_t t = 0; t < e.visible(s); ++t) {
      const double* v = call.inputs[kValue]->values.data() + e.row(b, t, h, e.keys);
      for (int64_t d = 0; d < e.depth; ++d) out[d] += row.probabilities[t] * v[d];
    }
    call.outputs[1].values[e.log_sum_exp(b, h, s)] = row.log_sum_exp;
  });
}

/// The operands of the gradient for one pair of query and key.
struct Pair {
  const double* q;
  const double* k;
  const double* v;
  const double* out;
  const double* dout;
  size_t query_row, key_row;
  double score, log_sum_exp;
};

Pair pair_of(const Extents& e, const ReferenceCall& call, int64_t b, int64_t h, int64_t s,
             int64_t t) {
  Pair pair{};
  pair.query_row = e.row(b, s, h, e.queries);
  pair.key_row = e.row(b, t, h, e.keys);
  pair.q = call.inputs[kQuery]->values.data() + pair.query_row;
  pair.k = call.inputs[kKey]->values.data() + pair.key_row;
  pair.v = call.inputs[kValue]->values.data() + pair.key_row;
  pair.out = call.inputs[kOut]->values.data() + pair.query_row;
  pair.dout = call.inputs[kOutGradient]->values.data() + pair.query_row;
  pair.score = e.scale * dot(pair.q, pair.k, e.depth);
  pair.log_sum_exp = call.inputs[kLogSumExp]->values[e.log_sum_exp(b, h, s)];
  return pair;
}

template <typename Visit>
void for_each_pair(const Extents& e, const ReferenceCall& call, Visit visit) {
  for_each_query(e, [&](int64_t b, int64_t h, int64_t s) {
    for (int64_t t = 0; t < e.visible(s); ++t) visit(pair_of(e, call, b, h, s, t));
  });
}

/// For each pair of query and key:
///     p = exp(score - lse)
///     dv += p dout
///     ds = p (dout.v - dout.out)
///     dq += scale ds k
///     dk += scale ds q
void reference_gradient(const ReferenceCall& call) {
  const Extents e = extents_of(call.op);
  for_each_pair(e, call, [&](const Pair& pair) {
    const double p = std::exp(pair.score - pair.log_sum_exp);
    const double ds = p * (dot(pair.dout, pair.v, e.depth) - dot(pair.dout, pair.out, e.depth));
    for (int64_t i = 0; i < e.depth; ++i) {
      const size_t d = i;
      call.outputs[kQuery].values[pair.query_row + d] += e.scale * ds * pair.k[d];
      call.outputs[kKey].values[pair.key_row + d] += e.scale * ds * pair.q[d];
      call.outputs[kValue].values[pair.key_row + d] += p * pair.dout[d];
    }
  });
}

// Tolerances
//
// These are to first order in the unit roundoff u, times 4: for the terms of second order and for
// exponentials with more than two roundings.
constexpr double kUnitRoundoff = unit_roundoff(DType::kF32);
constexpr double kSafety = 4;
constexpr double kExponentialRoundings = 4;

/// The relative error of exp(score - shift), where the shift is exact. It is the absolute error of
/// the argument, and the error of the exponential. The score is a product of depth terms, scaled:
/// (depth + 2) u |scale| sum |q||k|. The subtraction adds u |score - shift|.
double exponential_error(const Extents& e, const double* q, const double* k, double score,
                         double shift) {
  const double score_error =
      static_cast<double>(e.depth + 2) * std::abs(e.scale) * magnitude_dot(q, k, e.depth);
  return kUnitRoundoff * (score_error + std::abs(score - shift) + kExponentialRoundings);
}

/// The error of one query. Let e_t be the relative error of exp(s_t - max). The error of p_t =
/// exp(s_t - max) / sum is e_t + mean(e), with mean(e) = sum p_t e_t, and T + 4 roundings of the
/// two sums over T keys (an online softmax rescales at most T times), the division and the product:
///
///     out   sum_t p_t |v_t| (e_t + mean(e) + (T + 4) u)
///     lse   mean(e) + (T + 4) u + u |max| + 2 u |lse|
std::vector<double> tolerance_attention(const ReferenceCall& call, int output) {
  const Extents e = extents_of(call.op);
  std::vector<double> errors(call.outputs[output].values.size(), 0.0);
  const double sums = static_cast<double>(e.keys + 4) * kUnitRoundoff;
  for_each_query(e, [&](int64_t b, int64_t h, int64_t s) {
    const Softmax row = softmax_of(e, call, b, h, s);
    if (row.scores.empty()) return;
    const double* q = call.inputs[kQuery]->values.data() + e.row(b, s, h, e.queries);
    std::vector<double> relative;
    double mean = 0;
    for (size_t t = 0; t < row.scores.size(); ++t) {
      const double* k =
          call.inputs[kKey]->values.data() + e.row(b, static_cast<int64_t>(t), h, e.keys);
      relative.push_back(exponential_error(e, q, k, row.scores[t], row.maximum));
      mean += row.probabilities[t] * relative.back();
    }
    if (output == 1) {
      errors[e.log_sum_exp(b, h, s)] =
          kSafety *
          (mean + sums + kUnitRoundoff * (std::abs(row.maximum) + 2 * std::abs(row.log_sum_exp)));
      return;
    }
    for (size_t t = 0; t < row.scores.size(); ++t) {
      const double* v =
          call.inputs[kValue]->values.data() + e.row(b, static_cast<int64_t>(t), h, e.keys);
      const double share =
          row.probabilities[t] * (relative[t] + mean + sums) + detail::kSmallestNormal;
      for (int64_t d = 0; d < e.depth; ++d)
        errors[e.row(b, s, h, e.queries) + static_cast<size_t>(d)] +=
            kSafety * share * std::abs(v[d]);
    }
  });
  return errors;
}

/// With e_st the relative error of p_st = exp(score - lse), where lse is given, and S queries and T
/// keys:
///
///     dv   sum_s p |dout| (e + (S + 2) u)
///     ds   p (sum |dout||v| + sum |dout||out|) (e + (D + 4) u): two products of D terms, their
///          difference, times p
///     dq   |scale| sum_t ds' |k|, where ds' is ds with T + 4 more roundings
///     dk   |scale| sum_s ds' |q|, where ds' is ds with S + 4 more roundings
std::vector<double> tolerance_gradient(const ReferenceCall& call, int output) {
  const Extents e = extents_of(call.op);
  std::vector<double> errors(call.outputs[output].values.size(), 0.0);
  const auto depth = static_cast<double>(e.depth);
  const bool is_of_queries = output == static_cast<int>(kQuery);
  // Ranks with different queries have parts of dk and dv, which they round to the element type.
  const DType dtype = call.outputs[output].type.dtype;
  const double parts = is_narrow_float(dtype) && !is_of_queries ? 2 * unit_roundoff(dtype) : 0;
  const double terms = static_cast<double>(is_of_queries ? e.keys : e.queries);
  for_each_pair(e, call, [&](const Pair& pair) {
    const double p = std::exp(pair.score - pair.log_sum_exp);
    const double relative = exponential_error(e, pair.q, pair.k, pair.score, pair.log_sum_exp);
    const double flow =
        magnitude_dot(pair.dout, pair.v, e.depth) + magnitude_dot(pair.dout, pair.out, e.depth);
    const double score_share =
        std::abs(e.scale) * (p * flow * (relative + parts + (depth + 8 + terms) * kUnitRoundoff) +
                             detail::kSmallestNormal);
    const double value_share =
        p * (relative + parts + (terms + 2) * kUnitRoundoff) + detail::kSmallestNormal;
    for (int64_t i = 0; i < e.depth; ++i) {
      const size_t d = i;
      if (output == static_cast<int>(kQuery))
        errors[pair.query_row + d] += kSafety * score_share * std::abs(pair.k[d]);
      if (output == static_cast<int>(kKey))
        errors[pair.key_row + d] += kSafety * score_share * std::abs(pair.q[d]);
      if (output == static_cast<int>(kValue))
        errors[pair.key_row + d] += kSafety * value_share * std::abs(pair.dout[d]);
    }
  });
  return errors;
}

// Gradient

Gradients gradient_attention(Builder& builder, const GradientCall& call) {
  if (call.output_gradients.at(1))
    throw UserError(
        "attention '" + call.op.name + "': a gradient flows into its log-sum-exp",
        "attention differentiates its first result only; the second serves its own gradient",
        "stop the gradient of the second result, or compose the attention of dot_general, reduce "
        "and exp",
        ExitCode::kBadData);
  const std::vector<ValueId> in = call.op.inputs, out = call.op.outputs;
  const std::vector<ValueId> results = builder.op(
      "attention_grad",
      {in[kQuery], in[kKey], in[kValue], out[0], out[1], call.output_gradients.at(0).value()},
      call.op.attributes, "qkv");
  Gradients gradients(3);
  for (size_t i = 0; i < 3; ++i)
    if (call.wanted[i]) gradients[i] = results[i];
  return gradients;
}

}  // namespace

std::span<const Operator> attention_operators() {
  static const std::array operators{Operator{.name = "attention",
                                             .precision = PrecisionClass::kNarrow,
                                             .infer = infer_attention,
                                             .rule = rule_attention,
                                             .work = work_attention,
                                             .kernel = kernel_attention,
                                             .reference = reference_attention,
                                             .tolerance = tolerance_attention,
                                             .gradient = gradient_attention},
                                    Operator{.name = "attention_grad",
                                             .infer = infer_gradient,
                                             .rule = rule_gradient,
                                             .work = work_gradient,
                                             .kernel = kernel_gradient,
                                             .reference = reference_gradient,
                                             .tolerance = tolerance_gradient}};
  return operators;
}

}  // namespace tessera
