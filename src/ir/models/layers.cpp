#include "ir/models/layers.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

int last_dim(const Builder& builder, ValueId x) {
  return builder.shape(x).size() - 1;
}

/// All dims of x except the last, for the broadcast of a reduction over the last dim.
std::vector<int64_t> leading_dims(const Builder& builder, ValueId x) {
  std::vector<int64_t> dims(last_dim(builder, x));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

/// `statistic`, which has one element for each row of x, broadcast to the shape of x.
ValueId along_rows(Builder& builder, ValueId statistic, ValueId x, std::string_view name) {
  return builder.broadcast(statistic, builder.shape(x), leading_dims(builder, x), name);
}

ValueId sum_rows(Builder& builder, ValueId x, std::string_view name) {
  return builder.reduce_sum(x, {last_dim(builder, x)}, name);
}

/// factor * mean(x) by row.
ValueId mean_rows(Builder& builder, ValueId x, double factor, std::string_view name) {
  const double width = static_cast<double>(builder.shape(x)[last_dim(builder, x)]);
  return builder.mul_scalar(sum_rows(builder, x, std::string(name) + "_sum"), factor / width, name);
}

/// x - max(x) by row. The maximum only keeps exp in range: its gradient cancels, so none is built.
ValueId shift_rows(Builder& builder, ValueId x) {
  const ValueId largest = builder.stop_gradient(
      builder.reduce(ReduceOp::kMax, x, {last_dim(builder, x)}, "max"), "shift");
  return builder.sub(x, along_rows(builder, largest, x, "shift_rows"), "shifted");
}

/// weight * x / sqrt(mean(x^2) + epsilon) by row.
ValueId scaled_rows(Builder& builder, ValueId x, ValueId weight, double epsilon,
                    const std::string& square_name) {
  const ValueId square = mean_rows(builder, builder.unary("square", x, "square"), 1, square_name);
  const ValueId scale =
      builder.unary("rsqrt", builder.add_scalar(square, epsilon, square_name + "_plus"), "scale");
  const ValueId normal = builder.mul(x, along_rows(builder, scale, x, "scale_rows"), "normal");
  return builder.mul(normal, builder.broadcast_leading(weight, builder.shape(x), "weight_rows"),
                     "weighted");
}

ValueId zeros(Builder& builder, const Shape& shape) {
  return builder.constant({DType::kF32, shape}, 0.0, "zeros");
}

ValueId add_bias(Builder& builder, ValueId x, const Shape& shape) {
  const ValueId bias = builder.variable("bias", {DType::kF32, shape}, Initializer::constant(0));
  return builder.add(x, builder.broadcast_leading(bias, builder.shape(x), "bias_rows"), "biased");
}

}  // namespace

ValueId linear(LayerContext& context, ValueId x, int64_t out, std::string_view name,
               double deviation, bool bias) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const int last = last_dim(builder, x);
  const ValueId weight = builder.variable("weight", {DType::kF32, {builder.shape(x)[last], out}},
                                          Initializer::normal(0, deviation));
  const std::string rows = std::string("abcdefgh").substr(0, static_cast<size_t>(last));
  const ValueId y = builder.dot(x, weight, rows + "i,io->" + rows + "o", "dot");
  return bias ? add_bias(builder, y, {out}) : y;
}

ValueId embedding_table(LayerContext& context, int64_t rows, int64_t width, std::string_view name) {
  const auto scope = context.builder.scope(name);
  return context.builder.variable("weight", {DType::kF32, {rows, width}},
                                  Initializer::normal(0, 0.02));
}

ValueId embedding(LayerContext& context, ValueId ids, int64_t rows, int64_t width,
                  std::string_view name) {
  const ValueId table = embedding_table(context, rows, width, name);
  const auto scope = context.builder.scope(name);
  return context.builder.gather(table, ids, "rows");
}

ValueId layer_norm(LayerContext& context, ValueId x, std::string_view name, double epsilon) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const TensorType per_channel{DType::kF32, {builder.shape(x)[last_dim(builder, x)]}};
  const ValueId weight = builder.variable("weight", per_channel, Initializer::constant(1));
  const ValueId bias = builder.variable("bias", per_channel, Initializer::constant(0));

  // The mean is negated while it is small: a difference would negate its gradient at full size.
  const ValueId minus_mean = mean_rows(builder, x, -1, "minus_mean");
  const ValueId centered =
      builder.add(x, along_rows(builder, minus_mean, x, "minus_mean_rows"), "centered");
  const ValueId weighted = scaled_rows(builder, centered, weight, epsilon, "variance");
  return builder.add(weighted, builder.broadcast_leading(bias, builder.shape(x), "bias_rows"),
                     "biased");
}

ValueId rms_norm(LayerContext& context, ValueId x, std::string_view name, double epsilon,
                 bool plus_one) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const TensorType per_channel{DType::kF32, {builder.shape(x)[last_dim(builder, x)]}};
  ValueId weight = builder.variable("weight", per_channel, Initializer::constant(plus_one ? 0 : 1));
  if (plus_one) weight = builder.add_scalar(weight, 1, "weight_plus_one");
  return scaled_rows(builder, x, weight, epsilon, "mean_square");
}

ValueId dropout(LayerContext& context, ValueId x, double rate, std::string_view name) {
  if (!context.training || rate == 0) return x;
  ensure(rate > 0 && rate < 1, "a dropout rate is in [0, 1)");
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const Shape shape = builder.shape(x);
  const ValueId draw = builder.random_uniform(context.step, shape, "draw");
  const ValueId keep =
      builder.compare("ge", draw, builder.constant({DType::kF32, shape}, rate, "rate"), "keep");
  // Backward keeps only the booleans.
  return builder.select(keep, builder.mul_scalar(x, 1 / (1 - rate), "scaled"),
                        zeros(builder, shape), "kept");
}

ValueId gelu(LayerContext& context, ValueId x) {
  // 0.5 (1 + tanh(u)) = logistic(2u), which saves two passes.
  Builder& builder = context.builder;
  const auto scope = builder.scope("gelu");
  const double twice = 2 * std::sqrt(2 / std::numbers::pi);
  const ValueId slope = builder.add_scalar(
      builder.mul_scalar(builder.unary("square", x, "square"), twice * 0.044715, "cubic"), twice,
      "slope");
  return builder.mul(x, builder.unary("logistic", builder.mul(x, slope, "angle"), "gate"), "gated");
}

ValueId exact_gelu(LayerContext& context, ValueId x) {
  Builder& builder = context.builder;
  const auto scope = builder.scope("gelu");
  const ValueId erf =
      builder.unary("erf", builder.mul_scalar(x, 1 / std::numbers::sqrt2, "turned"), "erf");
  const ValueId half = builder.mul_scalar(x, 0.5, "half");
  return builder.mul(half, builder.add_scalar(erf, 1, "gate"), "gated");
}

ValueId quick_gelu(LayerContext& context, ValueId x) {
  Builder& builder = context.builder;
  const auto scope = builder.scope("gelu");
  return builder.mul(x, builder.unary("logistic", builder.mul_scalar(x, 1.702, "angle"), "gate"),
                     "gated");
}

ValueId relu(LayerContext& context, ValueId x) {
  return context.builder.max_scalar(x, 0.0, "relu");
}

ValueId silu(LayerContext& context, ValueId x) {
  Builder& builder = context.builder;
  const auto scope = builder.scope("silu");
  return builder.mul(x, builder.unary("logistic", x, "gate"), "gated");
}

ValueId swiglu(LayerContext& context, ValueId x, int64_t inner, double out_deviation,
               std::string_view name) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const int64_t width = builder.shape(x)[last_dim(builder, x)];
  const ValueId gate = silu(context, linear(context, x, inner, "gate", 0.02, false));
  const ValueId up = linear(context, x, inner, "up", 0.02, false);
  return linear(context, builder.mul(gate, up, "hidden"), width, "down", out_deviation, false);
}

ValueId softmax(LayerContext& context, ValueId x) {
  Builder& builder = context.builder;
  const auto scope = builder.scope("softmax");
  const ValueId weights = builder.unary("exp", shift_rows(builder, x), "exp");
  return builder.div(weights, along_rows(builder, sum_rows(builder, weights, "sum"), x, "sum_rows"),
                     "share");
}

CrossEntropy cross_entropy(LayerContext& context, ValueId logits, ValueId labels,
                           std::string_view name) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const Shape shape = builder.shape(logits);
  const ValueId shifted = shift_rows(builder, logits);
  const ValueId log_sum = builder.unary(
      "log", sum_rows(builder, builder.unary("exp", shifted, "exp"), "sum"), "log_sum");

  const ValueId classes = builder.iota({DType::kI32, shape}, last_dim(builder, logits), "classes");
  const ValueId is_label =
      builder.compare("eq", along_rows(builder, labels, logits, "label_rows"), classes, "is_label");
  const ValueId picked = sum_rows(
      builder, builder.select(is_label, shifted, zeros(builder, shape), "label_logit"), "picked");
  const ValueId terms = builder.sub(log_sum, picked, "terms");

  const ValueId none = builder.constant(builder.type(labels), 0.0, "least_label");
  const ValueId valid =
      builder.cast(builder.compare("ge", labels, none, "is_valid"), DType::kF32, "valid");
  const std::vector<int64_t> all_dims = leading_dims(builder, logits);
  const ValueId total =
      builder.reduce_sum(builder.mul(terms, valid, "valid_terms"), all_dims, "total");
  const ValueId count = builder.reduce_sum(valid, all_dims, "count");
  return {builder.div(total, builder.max_scalar(count, 1.0, "divisor"), "mean"), count};
}

}  // namespace tessera
