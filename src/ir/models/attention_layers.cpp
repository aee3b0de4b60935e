// Attention with its projections: with many heads or grouped ones, to itself or to another
// sequence, with or without rotary positions.
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/models/layers.h"

namespace tessera {
namespace {

/// A product with a weight, and a bias unless its shape is empty, in the scope `name`.
struct Projection {
  std::string_view spec;
  Shape weight, bias;
  double deviation = 0.02;
};

ValueId project(Builder& builder, ValueId x, const Projection& projection, std::string_view name) {
  const auto scope = builder.scope(name);
  const ValueId weight = builder.variable("weight", {DType::kF32, projection.weight},
                                          Initializer::normal(0, projection.deviation));
  const ValueId y = builder.dot(x, weight, projection.spec, "dot");
  if (projection.bias.empty()) return y;
  const ValueId bias =
      builder.variable("bias", {DType::kF32, projection.bias}, Initializer::constant(0));
  return builder.add(y, builder.broadcast_leading(bias, builder.shape(y), "bias_rows"), "biased");
}

/// The queries or keys of every head, [B,S,H,D].
Projection into_heads(int64_t width, int64_t heads, int64_t head, bool bias) {
  return {"bse,ehd->bshd", {width, heads, head}, bias ? Shape{heads, head} : Shape{}};
}

/// x[B,S,H,D] multiplied by table[S,D] for each position and channel.
ValueId times_table(Builder& builder, ValueId x, ValueId table, const std::string& name) {
  return builder.mul(x, builder.broadcast(table, builder.shape(x), {1, 3}, name + "_rows"), name);
}

/// The keys or values of all positions: those of earlier steps, and x[B,1,G,D] at the position of
/// this one. Variable `cache`.
ValueId with_earlier(LayerContext& context, ValueId x, std::string_view name) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const Shape one = builder.shape(x);
  const Shape all{one[0], context.decoding->places, one[2], one[3]};
  const ValueId cache =
      builder.variable("cache", {DType::kF32, all}, Initializer::constant(0), false);
  const ValueId places = builder.iota({DType::kI32, all}, 1, "places");
  const ValueId is_now = builder.compare(
      "eq", places, builder.broadcast_leading(context.decoding->place, all, "place"), "is_now");
  const ValueId next =
      builder.select(is_now, builder.broadcast(x, all, {0, 1, 2, 3}, "now"), cache, "next");
  builder.graph().set_next(cache, next);
  return next;
}

/// Where scores[B,H,S,T] are of keys that a query reads: those at `place` and, of a window, fewer
/// than `window` before it. places and place are i32 of the shape of the scores.
ValueId scores_seen(Builder& builder, ValueId scores, ValueId places, ValueId place,
                    int64_t window) {
  const ValueId is_seen = builder.compare("le", places, place, "is_seen");
  const ValueId unseen = builder.constant(builder.type(scores), -1e30, "unseen");
  ValueId seen = builder.select(is_seen, scores, unseen, "masked");
  if (window == 0) return seen;
  const ValueId distance = builder.sub(place, places, "distance");
  const ValueId far = builder.constant(builder.type(places), static_cast<double>(window), "window");
  return builder.select(builder.compare("lt", distance, far, "is_near"), seen, unseen, "windowed");
}

/// Causal attention in single ops: that of a window, and when decoding that of one query q[B,1,H,D]
/// to keys and values [B,T,H,D] up to its position.
ValueId mix_seen(LayerContext& context, ValueId q, ValueId k, ValueId v, double scale,
                 int64_t window) {
  Builder& builder = context.builder;
  const auto scope = builder.scope("mix");
  const ValueId scores =
      builder.mul_scalar(builder.dot(q, k, "bshd,bthd->bhst", "dot"), scale, "scores");
  const TensorType type{DType::kI32, builder.shape(scores)};
  const ValueId places = builder.iota(type, 3, "places");
  const ValueId place =
      context.decoding ? builder.broadcast_leading(context.decoding->place, type.shape, "place")
                       : builder.iota(type, 2, "place");
  const ValueId shares = softmax(context, scores_seen(builder, scores, places, place, window));
  return builder.dot(shares, v, "bhst,bthd->bshd", "out");
}

/// The radians that a channel turns by each position, after its scaling.
ValueId scaled_frequency(Builder& builder, ValueId frequency, const RotaryScaling& scaling) {
  if (scaling.kind == "linear") return builder.mul_scalar(frequency, 1 / scaling.factor, "scaled");
  if (scaling.kind != "llama3") return frequency;
  const double turns = static_cast<double>(scaling.context) / (2 * std::numbers::pi);
  const double range = scaling.high - scaling.low;
  const ValueId above = builder.add_scalar(builder.mul_scalar(frequency, turns / range, "turns"),
                                           -scaling.low / range, "above");
  const ValueId kept = builder.min_scalar(builder.max_scalar(above, 0, "at_least"), 1, "kept");
  // kept + (1 - kept) / factor
  const ValueId share = builder.add_scalar(
      builder.mul_scalar(kept, 1 - 1 / scaling.factor, "kept_more"), 1 / scaling.factor, "share");
  return builder.mul(frequency, share, "scaled");
}

}  // namespace

RotaryAngles rotary_angles(LayerContext& context, int64_t places, int64_t half, double base,
                           const RotaryScaling& scaling) {
  Builder& builder = context.builder;
  const auto scope = builder.scope("angles");
  const TensorType type{DType::kF32, {places, half}};
  const ValueId place =
      context.decoding
          ? builder.broadcast_leading(
                builder.cast(context.decoding->place, DType::kF32, "of_token"), type.shape, "place")
          : builder.iota(type, 0, "place");
  const ValueId channel = builder.iota(type, 1, "channel");
  ValueId frequency = builder.unary(
      "exp", builder.mul_scalar(channel, -std::log(base) / static_cast<double>(half), "exponent"),
      "frequency");
  frequency = scaled_frequency(builder, frequency, scaling);
  const ValueId angle = builder.mul(place, frequency, "angle");
  const ValueId cos = builder.unary("cos", angle, "cos");
  return {cos, builder.unary("sin", angle, "sin")};
}

ValueId rotary(LayerContext& context, ValueId x, const RotaryAngles& angles,
               std::string_view name) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const Shape shape = builder.shape(x);
  const int64_t half = builder.shape(angles.cos)[1], turned = 2 * half;
  ensure(shape.size() == 4 && turned <= shape[3], "rotary takes x[B,S,H,D] with R <= D");
  const std::vector<int64_t> every(4, 1);
  const ValueId low =
      builder.slice(x, {0, 0, 0, 0}, {shape[0], shape[1], shape[2], half}, every, "low");
  const ValueId high =
      builder.slice(x, {0, 0, 0, half}, {shape[0], shape[1], shape[2], turned}, every, "high");
  const ValueId low_cos = times_table(builder, low, angles.cos, "low_cos");
  const ValueId high_sin = times_table(builder, high, angles.sin, "high_sin");
  const ValueId high_cos = times_table(builder, high, angles.cos, "high_cos");
  const ValueId low_sin = times_table(builder, low, angles.sin, "low_sin");
  const ValueId turned_low = builder.sub(low_cos, high_sin, "turned_low");
  const ValueId turned_high = builder.add(high_cos, low_sin, "turned_high");
  if (turned == shape[3]) return builder.concat({turned_low, turned_high}, 3, "turned");
  const ValueId rest =
      builder.slice(x, {0, 0, 0, turned}, {shape[0], shape[1], shape[2], shape[3]}, every, "rest");
  return builder.concat({turned_low, turned_high, rest}, 3, "turned");
}

ValueId repeat_heads(LayerContext& context, ValueId x, int64_t times, std::string_view name) {
  if (times == 1) return x;
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const Shape shape = builder.shape(x);
  const ValueId copies =
      builder.broadcast(x, {shape[0], shape[1], shape[2], times, shape[3]}, {0, 1, 2, 4}, "copies");
  return builder.reshape(copies, {shape[0], shape[1], shape[2] * times, shape[3]}, "heads");
}

ValueId attention(LayerContext& context, ValueId x, ValueId source, const AttentionOptions& options,
                  std::string_view name) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const int64_t width = builder.shape(x)[2];
  const int64_t heads = options.heads, kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  ensure(heads > 0 && (options.head > 0 || width % heads == 0), "the heads divide the width");
  ensure(heads % kv_heads == 0, "the heads of keys and values divide those of queries");
  const int64_t head = options.head == 0 ? width / heads : options.head;
  ValueId q = project(builder, x, into_heads(width, heads, head, options.bias), "q");
  ValueId k = project(builder, source, into_heads(width, kv_heads, head, options.bias), "k");
  ValueId v = project(builder, source, into_heads(width, kv_heads, head, options.bias), "v");
  if (options.norms) {
    q = rms_norm(context, q, "q_norm", options.norm_epsilon, options.norm_plus_one);
    k = rms_norm(context, k, "k_norm", options.norm_epsilon, options.norm_plus_one);
  }
  if (options.rotary_base > 0) {
    ensure(x == source, "queries and keys have the same places");
    const int64_t turned = options.rotary_features == 0 ? head : options.rotary_features;
    const RotaryAngles angles = rotary_angles(context, builder.shape(x)[1], turned / 2,
                                              options.rotary_base, options.rotary_scaling);
    q = rotary(context, q, angles, "q.rotary");
    k = rotary(context, k, angles, "k.rotary");
  }
  if (context.decoding) {
    ensure(options.causal && x == source, "later positions are not needed");
    k = with_earlier(context, k, "k");
    v = with_earlier(context, v, "v");
  }
  k = repeat_heads(context, k, heads / kv_heads, "k.repeated");
  v = repeat_heads(context, v, heads / kv_heads, "v.repeated");
  const double scale = 1 / std::sqrt(static_cast<double>(head));
  const int64_t positions = context.decoding ? context.decoding->places : builder.shape(x)[1];
  const int64_t window = options.window < positions ? options.window : 0;
  ensure(window == 0 || options.causal, "a window is of earlier positions");
  const bool in_single_ops = context.decoding || window > 0;
  const ValueId mixed = in_single_ops
                            ? mix_seen(context, q, k, v, scale, window)
                            : builder.attention(q, k, v, options.causal, scale, "mix").out;
  const Shape bias = options.bias && options.out_bias ? Shape{width} : Shape{};
  return project(builder, mixed,
                 {"bshd,hde->bse", {heads, head, width}, bias, options.out_deviation}, "out");
}

}  // namespace tessera
