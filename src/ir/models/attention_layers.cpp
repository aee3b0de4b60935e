// Attention with its projections: with many heads or grouped ones, to itself or to another
// sequence, with or without rotary positions.
#include <cmath>
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

/// The attention of one query q[B,1,H,D] to keys and values [B,T,H,D] up to its position.
ValueId mix_up_to_place(LayerContext& context, ValueId q, ValueId k, ValueId v, double scale) {
  Builder& builder = context.builder;
  const auto scope = builder.scope("mix");
  const ValueId scores =
      builder.mul_scalar(builder.dot(q, k, "bshd,bthd->bhst", "dot"), scale, "scores");
  const Shape shape = builder.shape(scores);
  const ValueId places = builder.iota({DType::kI32, shape}, 3, "places");
  const ValueId is_seen = builder.compare(
      "le", places, builder.broadcast_leading(context.decoding->place, shape, "place"), "is_seen");
  const ValueId unseen = builder.constant({DType::kF32, shape}, -1e30, "unseen");
  const ValueId shares = softmax(context, builder.select(is_seen, scores, unseen, "masked"));
  return builder.dot(shares, v, "bhst,bthd->bshd", "out");
}

}  // namespace

RotaryAngles rotary_angles(LayerContext& context, int64_t places, int64_t half, double base) {
  Builder& builder = context.builder;
  const auto scope = builder.scope("angles");
  const TensorType type{DType::kF32, {places, half}};
  const ValueId place =
      context.decoding
          ? builder.broadcast_leading(
                builder.cast(context.decoding->place, DType::kF32, "of_token"), type.shape, "place")
          : builder.iota(type, 0, "place");
  const ValueId channel = builder.iota(type, 1, "channel");
  const ValueId frequency = builder.unary(
      "exp", builder.mul_scalar(channel, -std::log(base) / static_cast<double>(half), "exponent"),
      "frequency");
  const ValueId angle = builder.mul(place, frequency, "angle");
  const ValueId cos = builder.unary("cos", angle, "cos");
  return {cos, builder.unary("sin", angle, "sin")};
}

ValueId rotary(LayerContext& context, ValueId x, const RotaryAngles& angles,
               std::string_view name) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const Shape shape = builder.shape(x);
  ensure(shape.size() == 4 && shape[3] % 2 == 0, "rotary takes x[B,S,H,D] with an even D");
  const int64_t half = shape[3] / 2;
  const std::vector<int64_t> every(4, 1);
  const ValueId low =
      builder.slice(x, {0, 0, 0, 0}, {shape[0], shape[1], shape[2], half}, every, "low");
  const ValueId high =
      builder.slice(x, {0, 0, 0, half}, {shape[0], shape[1], shape[2], shape[3]}, every, "high");
  const ValueId low_cos = times_table(builder, low, angles.cos, "low_cos");
  const ValueId high_sin = times_table(builder, high, angles.sin, "high_sin");
  const ValueId high_cos = times_table(builder, high, angles.cos, "high_cos");
  const ValueId low_sin = times_table(builder, low, angles.sin, "low_sin");
  const ValueId turned_low = builder.sub(low_cos, high_sin, "turned_low");
  const ValueId turned_high = builder.add(high_cos, low_sin, "turned_high");
  return builder.concat({turned_low, turned_high}, 3, "turned");
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
    q = rms_norm(context, q, "q_norm");
    k = rms_norm(context, k, "k_norm");
  }
  if (options.rotary_base > 0) {
    ensure(x == source, "queries and keys have the same places");
    const RotaryAngles angles =
        rotary_angles(context, builder.shape(x)[1], head / 2, options.rotary_base);
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
  const ValueId mixed = context.decoding
                            ? mix_up_to_place(context, q, k, v, scale)
                            : builder.attention(q, k, v, options.causal, scale, "mix").out;
  const Shape bias = options.bias && options.out_bias ? Shape{width} : Shape{};
  return project(builder, mixed,
                 {"bshd,hde->bse", {heads, head, width}, bias, options.out_deviation}, "out");
}

}  // namespace tessera
