#include "ir/models/internal/norms.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int kChannelDim = 1;

using DimList = std::vector<int64_t>;

/// The dims of x that statistics reduce, and the remaining ones.
struct Statistics {
  Builder& builder;
  Shape shape;  // of x
  DimList over, of;
  double count = 1;

  Statistics(Builder& graph_builder, ValueId x, DimList reduced)
      : builder(graph_builder), shape(graph_builder.shape(x)), over(std::move(reduced)) {
    for (int d = 0; d < shape.size(); ++d) {
      if (std::find(over.begin(), over.end(), d) == over.end())
        of.push_back(d);
      else
        count *= static_cast<double>(shape[d]);
    }
  }

  /// factor * mean(x)
  ValueId mean(ValueId x, double factor, const std::string& name) const {
    return builder.mul_scalar(builder.reduce_sum(x, over, name + "_sum"), factor / count, name);
  }
  ValueId spread(ValueId statistic, std::string_view name) const {
    return builder.broadcast(statistic, shape, of, name);
  }
};

/// Per-channel weight and bias of x.
struct Affine {
  ValueId weight, bias;
};

Affine affine_variables(Builder& builder, int64_t channels) {
  const TensorType per_channel{DType::kF32, {channels}};
  const ValueId weight = builder.variable("weight", per_channel, Initializer::constant(1));
  return {weight, builder.variable("bias", per_channel, Initializer::constant(0))};
}

ValueId along_channels(Builder& builder, ValueId value, ValueId x, std::string_view name) {
  const Shape shape = builder.shape(x);
  return builder.broadcast(value, shape, {kChannelDim}, name);
}

ValueId apply(Builder& builder, const Affine& affine, ValueId normal) {
  const ValueId weight = along_channels(builder, affine.weight, normal, "weight_space");
  const ValueId weighted = builder.mul(normal, weight, "weighted");
  return builder.add(weighted, along_channels(builder, affine.bias, normal, "bias_space"),
                     "biased");
}

ValueId inverse_root(Builder& builder, ValueId variance) {
  return builder.unary("rsqrt", builder.add_scalar(variance, kNormEpsilon, "variance_plus"),
                       "scale");
}

/// (x - mean) scale, with the intermediate results.
struct Normalised {
  ValueId minus_mean, variance, normal;
};

Normalised normalise(const Statistics& statistics, ValueId x) {
  Builder& builder = statistics.builder;
  // The mean is negated while it is small: a difference would negate its gradient at full size.
  const ValueId minus_mean = statistics.mean(x, -1, "minus_mean");
  const ValueId centered =
      builder.add(x, statistics.spread(minus_mean, "minus_mean_space"), "centered");
  const ValueId variance =
      statistics.mean(builder.unary("square", centered, "square"), 1, "variance");
  const ValueId scale = inverse_root(builder, variance);
  return {minus_mean, variance,
          builder.mul(centered, statistics.spread(scale, "scale_space"), "normal")};
}

/// old + momentum (factor found - old)
ValueId follow(Builder& builder, ValueId old, ValueId found, double factor, double momentum,
               const std::string& name) {
  const ValueId still = builder.stop_gradient(found, name + "_found");
  const ValueId kept = builder.mul_scalar(old, 1 - momentum, name + "_kept");
  return builder.add(kept, builder.mul_scalar(still, momentum * factor, name + "_step"),
                     name + "_next");
}

void expect_channels(const Builder& builder, ValueId x, std::string_view layer) {
  if (builder.shape(x).size() > kChannelDim) return;
  throw UserError(std::string(layer) + " '" + builder.scope_path() + "': x " +
                      to_text(builder.type(x)) + " has no channels",
                  "it takes [batch, channels] or [batch, channels, space...]",
                  "reshape the operand", ExitCode::kBadData);
}

DimList dims_but_channels(const Builder& builder, ValueId x) {
  DimList dims{0};
  for (int d = kChannelDim + 1; d < builder.shape(x).size(); ++d) dims.push_back(d);
  return dims;
}

}  // namespace

ValueId batch_norm(LayerContext& context, ValueId x, std::string_view name, double momentum) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  expect_channels(builder, x, "batch_norm");
  const int64_t channels = builder.shape(x)[kChannelDim];
  const TensorType per_channel{DType::kF32, {channels}};
  const Affine affine = affine_variables(builder, channels);
  const ValueId running_mean =
      builder.variable("running_mean", per_channel, Initializer::constant(0), false);
  const ValueId running_variance =
      builder.variable("running_variance", per_channel, Initializer::constant(1), false);
  if (!context.training) {
    const ValueId centered =
        builder.sub(x, along_channels(builder, running_mean, x, "mean_space"), "centered");
    const ValueId scale =
        along_channels(builder, inverse_root(builder, running_variance), x, "scale_space");
    return apply(builder, affine, builder.mul(centered, scale, "normal"));
  }
  const Statistics statistics(builder, x, dims_but_channels(builder, x));
  const Normalised found = normalise(statistics, x);
  const double unbiased = statistics.count > 1 ? statistics.count / (statistics.count - 1) : 1;
  builder.graph().set_next(
      running_mean, follow(builder, running_mean, found.minus_mean, -1, momentum, "running_mean"));
  builder.graph().set_next(running_variance, follow(builder, running_variance, found.variance,
                                                    unbiased, momentum, "running_variance"));
  return apply(builder, affine, found.normal);
}

ValueId group_norm(LayerContext& context, ValueId x, int64_t groups, std::string_view name) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  expect_channels(builder, x, "group_norm");
  const Shape shape = builder.shape(x);
  const int64_t channels = shape[kChannelDim];
  ensure(groups >= 1 && channels % groups == 0, "groups divide the channels");
  const Affine affine = affine_variables(builder, channels);
  // [batch, groups, channels of one, space...]
  Shape grouped{shape[0], groups, channels / groups};
  for (int d = kChannelDim + 1; d < shape.size(); ++d) grouped.push_back(shape[d]);
  DimList over(grouped.size() - 2);
  std::iota(over.begin(), over.end(), 2);
  const ValueId apart = builder.reshape(x, grouped, "groups");
  const ValueId normal = normalise(Statistics(builder, apart, over), apart).normal;
  return apply(builder, affine, builder.reshape(normal, shape, "channels"));
}

ValueId instance_norm(LayerContext& context, ValueId x, std::string_view name) {
  const int64_t channels =
      context.builder.shape(x).size() > kChannelDim ? context.builder.shape(x)[kChannelDim] : 1;
  return group_norm(context, x, channels, name);
}

}  // namespace tessera
