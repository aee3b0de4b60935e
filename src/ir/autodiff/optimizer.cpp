#include "ir/autodiff/optimizer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/autodiff/gradient.h"
#include "ir/autodiff/internal/loss_scaling.h"
#include "ir/autodiff/internal/trained_parameter.h"
#include "ir/autodiff/internal/update_step.h"
#include "ir/ops/parameter_roles.h"

namespace tessera {
namespace {

/// Keeps the scale of the clip finite when every gradient is zero, as in
/// torch.nn.utils.clip_grad_norm_.
constexpr double kNormEpsilon = 1e-6;

ValueId find_or_add_input(Graph& graph, std::string_view name, const TensorType& type) {
  const auto found = graph.find_value(name);
  if (!found) return graph.add_input(std::string(name), type);
  ensure(graph.is_input(*found) && graph.type(*found) == type,
         "'" + std::string(name) + "' is an input " + to_text(type));
  return *found;
}

/// Writes the optimizer: the shared scalars, then one update per parameter.
class UpdateWriter {
 public:
  UpdateWriter(Graph& graph, uint64_t seed, const OptimizerConfig& config,
               std::span<const ParameterGroup> groups, const std::optional<LossScaling>& scaling)
      : builder_(graph, seed), config_(config), groups_(groups), scaling_(scaling) {}

  void write(std::vector<TrainedParameter> parameters, ValueId learning_rate, ValueId step) {
    if (scaling_) unscale(builder_, *scaling_, parameters);
    if (config_.clip_norm > 0)
      clip(parameters);
    else if (config_.measure_norm || scaling_)
      measure(parameters);
    std::optional<ValueId> is_finite;
    if (scaling_) {
      is_finite = gradients_are_finite(builder_, *scaling_, builder_.graph().output("grad_norm"));
      set_next_scale(builder_, *scaling_, *is_finite);
    }
    const UpdateRates rates = shared_rates(learning_rate, step);
    std::vector<UpdateRates> of_groups;
    for (size_t i = 0; i < groups_.size(); ++i) of_groups.push_back(rates_of(i, rates));
    StepWriter writer(builder_, config_, is_finite);
    for (const TrainedParameter& parameter : parameters)
      writer.update(parameter, parameter.group ? of_groups[*parameter.group] : rates);
  }

 private:
  ValueId global_norm(const std::vector<TrainedParameter>& parameters) {
    std::vector<ValueId> sums;
    for (const TrainedParameter& parameter : parameters) {
      derive_optimizer(builder_, parameter.name);
      std::vector<int64_t> dims;
      for (int64_t dim = 0; dim < builder_.shape(parameter.gradient).size(); ++dim)
        dims.push_back(dim);
      const ValueId square =
          builder_.unary("square", parameter.gradient, parameter.name + ".square");
      sums.push_back(builder_.reduce_sum(square, dims, parameter.name + ".sum"));
    }
    derive_optimizer(builder_, "");
    // After all of them, so that what they need from other ranks can be exchanged at once.
    ValueId total = sums.front();
    for (size_t i = 1; i < sums.size(); ++i) {
      // Numbered here: to find the next free number of a name takes as long as there are numbers.
      const std::string number = i == 1 ? "" : "_" + std::to_string(i - 1);
      total = builder_.add(total, sums[i], "sum" + number);
    }
    return builder_.unary("sqrt", total, "norm");
  }

  void measure(const std::vector<TrainedParameter>& parameters) {
    const auto scope = builder_.scope("clip");
    builder_.graph().add_output("grad_norm", global_norm(parameters));
  }

  /// Scales every gradient by min(1, clip_norm / (norm + 1e-6)).
  void clip(std::vector<TrainedParameter>& parameters) {
    const auto scope = builder_.scope("clip");
    const ValueId norm = global_norm(parameters);
    builder_.graph().add_output("grad_norm", norm);
    const ValueId bound = builder_.constant(builder_.type(norm), config_.clip_norm, "bound");
    const ValueId ratio =
        builder_.div(bound, builder_.add_scalar(norm, kNormEpsilon, "norm_plus"), "ratio");
    const ValueId scale = builder_.min_scalar(ratio, 1.0, "scale");
    for (TrainedParameter& parameter : parameters) {
      derive_optimizer(builder_, parameter.name);
      parameter.gradient =
          builder_.mul(parameter.gradient,
                       fill(builder_, scale, parameter, parameter.name + ".fill"), parameter.name);
    }
  }

  /// 1 - beta^t, computed as (1 + beta^t) tanh(-t ln(beta) / 2), since in f32 the difference 1 -
  /// 0.999 would lose five digits in the first steps.
  ValueId bias_correction(ValueId count, double beta, std::string_view name) {
    const auto scope = builder_.scope(name);
    const ValueId power =
        builder_.unary("exp", builder_.mul_scalar(count, std::log(beta), "log_power"), "power");
    const ValueId half = builder_.unary(
        "tanh", builder_.mul_scalar(count, -0.5 * std::log(beta), "half_angle"), "half");
    return builder_.mul(half, builder_.add_scalar(power, 1.0, "power_plus"), "value");
  }

  UpdateRates shared_rates(ValueId learning_rate, ValueId step) {
    const auto scope = builder_.scope("optimizer");
    derive_optimizer(builder_, "");
    UpdateRates rates{.learning_rate = learning_rate};
    if (has_averages(config_.kind)) {
      const ValueId count =
          builder_.add_scalar(builder_.cast(step, DType::kF32, "step"), 1.0, "count");
      const ValueId first = bias_correction(count, config_.beta1, "correction1");
      const ValueId second =
          builder_.unary("sqrt", bias_correction(count, config_.beta2, "correction2"), "root");
      if (config_.kind == OptimizerKind::kLamb)
        rates.adam_scale = builder_.div(second, first, "scale");
      else
        rates.adam_rate =
            builder_.div(builder_.mul(learning_rate, second, "scaled_rate"), first, "rate");
      rates.adam_epsilon = builder_.mul_scalar(second, config_.epsilon, "epsilon");
    }
    if (decays_by_rate(config_.kind) && config_.weight_decay != 0)
      rates.decay = builder_.mul_scalar(learning_rate, config_.weight_decay, "decay");
    return rates;
  }

  /// The scalars of group `index`, which are those of all parameters where it does not differ.
  UpdateRates rates_of(size_t index, const UpdateRates& all) {
    const ParameterGroup& group = groups_[index];
    const auto scope = builder_.scope("optimizer.group" + std::to_string(index));
    derive_optimizer(builder_, "");
    UpdateRates rates = all;
    if (group.rate != 1) {
      rates.learning_rate = builder_.mul_scalar(all.learning_rate, group.rate, "learning_rate");
      if (all.adam_rate) rates.adam_rate = builder_.mul_scalar(*all.adam_rate, group.rate, "rate");
    }
    const double decay = group.weight_decay.value_or(config_.weight_decay);
    if (decays_by_rate(config_.kind) && decay != 0 && (group.rate != 1 || group.weight_decay))
      rates.decay = builder_.mul_scalar(rates.learning_rate, decay, "decay");
    return rates;
  }

  Builder builder_;
  const OptimizerConfig& config_;
  const std::span<const ParameterGroup> groups_;
  const std::optional<LossScaling> scaling_;
};

std::vector<ParameterGradient> differentiated_parameters(Builder& builder, ValueId loss,
                                                         const std::vector<ValueId>& targets) {
  const std::vector<ValueId> gradients = differentiate(builder, loss, targets);
  std::vector<ParameterGradient> parameters;
  for (size_t i = 0; i < targets.size(); ++i)
    parameters.push_back(parameter_gradient(builder.graph(), targets[i], gradients[i]));
  return parameters;
}

}  // namespace

bool is_decayed(const Graph& graph, ValueId parameter) {
  return graph.type(parameter).shape.size() >= 2 && !is_bias(graph, parameter);
}

ParameterGradient parameter_gradient(const Graph& graph, ValueId parameter, ValueId gradient) {
  return {parameter, gradient, is_decayed(graph, parameter),
          input_dims_of_weight(graph, parameter)};
}

std::vector<ValueId> trained_parameters(const Graph& graph, const OptimizerConfig& config,
                                        std::span<const std::string> trained) {
  check_patterns(graph, config.frozen, "optimizer.frozen");
  const auto matches_any = [](std::span<const std::string> patterns, const std::string& name) {
    return std::ranges::any_of(patterns,
                               [&](const std::string& pattern) { return matches(pattern, name); });
  };
  std::vector<ValueId> parameters;
  bool has_trainable = false;
  for (const Variable& variable : graph.variables()) {
    const std::string& name = graph.value(variable.value).name;
    has_trainable = has_trainable || variable.trainable;
    if (variable.trainable && !matches_any(config.frozen, name) &&
        (trained.empty() || matches_any(trained, name)))
      parameters.push_back(variable.value);
  }
  if (!parameters.empty()) return parameters;
  if (!has_trainable)
    throw UserError("there is nothing to train", "the graph has no trainable variable",
                    "declare at least one variable as trainable", ExitCode::kBadData);
  throw UserError("there is nothing to train: every parameter is frozen",
                  "optimizer.frozen has a pattern for each of them",
                  "remove a pattern, so that a parameter is trained", ExitCode::kBadConfig);
}

namespace {

void write_updates(Builder& builder, const std::vector<ParameterGradient>& gradients,
                   const OptimizerConfig& config, std::span<const ParameterGroup> groups,
                   const std::optional<LossScaling>& scaling) {
  std::vector<TrainedParameter> parameters =
      with_settings(builder.graph(), gradients, config, groups);
  const ValueId learning_rate =
      find_or_add_input(builder.graph(), kLearningRateInput, {DType::kF32, {}});
  const ValueId step = find_or_add_input(builder.graph(), kStepInput, {DType::kI32, {}});
  UpdateWriter(builder.graph(), builder.seed(), config, groups, scaling)
      .write(std::move(parameters), learning_rate, step);
}

}  // namespace

void add_training(Builder& builder, ValueId loss, const OptimizerConfig& config,
                  std::span<const ParameterGroup> groups, std::span<const std::string> trained,
                  const std::optional<LossScale>& scale) {
  check_patterns(builder.graph(), config.adam, "optimizer.adam");
  const std::vector<ValueId> targets = trained_parameters(builder.graph(), config, trained);
  std::optional<LossScaling> scaling;
  if (scale) scaling = scale_loss(builder, loss, *scale);
  write_updates(builder, differentiated_parameters(builder, loss, targets), config, groups,
                scaling);
}

void add_updates(Builder& builder, const std::vector<ParameterGradient>& gradients,
                 const OptimizerConfig& config, std::span<const ParameterGroup> groups) {
  write_updates(builder, gradients, config, groups, {});
}

}  // namespace tessera
