#include "autodiff/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "autodiff/gradient.h"
#include "autodiff/orthogonal.h"
#include "base/error.h"
#include "base/text.h"
#include "ops/parameter_roles.h"

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

/// A variable under training, the gradient for its update, and its settings.
struct Parameter {
  ValueId value;
  ValueId gradient;
  std::string name;
  bool is_decayed = true;
  std::optional<int> input_dims = {};
  std::optional<size_t> group = {};  // the first one that matches
  double weight_decay = 0;
  OptimizerKind kind = OptimizerKind::kAdamW;  // that updates it
};

/// Scalars that all parameters of a group share.
struct Rates {
  ValueId learning_rate;
  // p -= adam_rate * exp_avg / (sqrt(exp_avg_sq) + adam_epsilon). The two bias corrections c1, c2
  // are in these scalars, so that they cost no pass over the parameter: lr (m / c1) / (sqrt(v / c2)
  // + e) = (lr sqrt(c2) / c1) m / (sqrt(v) + e sqrt(c2))
  std::optional<ValueId> adam_rate = {};
  std::optional<ValueId> adam_epsilon = {};
  std::optional<ValueId> adam_scale = {};  // lamb: adam_rate without the learning rate
  std::optional<ValueId> decay = {};       // learning rate * weight decay
};

/// The variables of the scaling of the loss.
struct Scaling {
  LossScale settings;
  ValueId scale;  // of this step
  ValueId steps;  // since the scale was changed
};

/// Writes the optimizer: the shared scalars, then one update per parameter.
class UpdateWriter {
 public:
  UpdateWriter(Graph& graph, uint64_t seed, const OptimizerConfig& config,
               std::span<const ParameterGroup> groups, const std::optional<Scaling>& scaling)
      : builder_(graph, seed), config_(config), groups_(groups), scaling_(scaling) {}

  void write(std::vector<Parameter> parameters, ValueId learning_rate, ValueId step) {
    if (scaling_) unscale(parameters);
    if (config_.clip_norm > 0)
      clip(parameters);
    else if (config_.measure_norm || scaling_)
      measure(parameters);
    if (scaling_) {
      find_if_finite(builder_.graph().output("grad_norm"));
      next_scale();
    }
    const Rates rates = shared_rates(learning_rate, step);
    std::vector<Rates> of_groups;
    for (size_t i = 0; i < groups_.size(); ++i) of_groups.push_back(rates_of(i, rates));
    for (const Parameter& parameter : parameters)
      update(parameter, parameter.group ? of_groups[*parameter.group] : rates);
  }

 private:
  /// Has any parameter the two averages of adam?
  bool has_averages() const {
    return config_.kind != OptimizerKind::kSgd && config_.kind != OptimizerKind::kMomentum;
  }
  /// Is the decay a term of the step? Of lamb it is one of the direction.
  bool decays_by_rate() const { return decays_apart() && config_.kind != OptimizerKind::kLamb; }
  static bool is_adam(OptimizerKind kind) {
    return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW;
  }
  bool decays_apart() const { return has_averages() && config_.kind != OptimizerKind::kAdam; }

  void derive_from(std::string source) {
    builder_.derive(Role::kOptimizer, {std::move(source), "optimizer"});
  }

  ValueId fill(ValueId scalar, const Parameter& parameter, std::string_view name) {
    return builder_.broadcast(scalar, builder_.shape(parameter.value), {}, name);
  }

  ValueId global_norm(const std::vector<Parameter>& parameters) {
    std::vector<ValueId> sums;
    for (const Parameter& parameter : parameters) {
      derive_from(parameter.name);
      std::vector<int64_t> dims;
      for (int64_t dim = 0; dim < builder_.shape(parameter.gradient).size(); ++dim)
        dims.push_back(dim);
      const ValueId square =
          builder_.unary("square", parameter.gradient, parameter.name + ".square");
      sums.push_back(builder_.reduce_sum(square, dims, parameter.name + ".sum"));
    }
    derive_from("");
    // Behind all of them, so that what they need from other ranks can be exchanged at once.
    ValueId total = sums.front();
    for (size_t i = 1; i < sums.size(); ++i) {
      // Numbered here: to find the next free number of a name takes as long as there are numbers.
      const std::string number = i == 1 ? "" : "_" + std::to_string(i - 1);
      total = builder_.add(total, sums[i], "sum" + number);
    }
    return builder_.unary("sqrt", total, "norm");
  }

  void measure(const std::vector<Parameter>& parameters) {
    const auto scope = builder_.scope("clip");
    builder_.graph().add_output("grad_norm", global_norm(parameters));
  }

  /// Divides the gradients by the scale. It is a power of two, so this is exact.
  void unscale(std::vector<Parameter>& parameters) {
    const auto scope = builder_.scope("loss_scale");
    derive_from("");
    const ValueId one = builder_.constant({DType::kF32, {}}, 1, "one");
    const ValueId inverse = builder_.div(one, scaling_->scale, "inverse");
    for (Parameter& parameter : parameters) {
      derive_from(parameter.name);
      parameter.gradient = builder_.mul(
          parameter.gradient, fill(inverse, parameter, parameter.name + ".fill"), parameter.name);
    }
  }

  /// The norm is of all gradients of all ranks and stages: it is finite when all of them are.
  void find_if_finite(ValueId norm) {
    const auto scope = builder_.scope("loss_scale");
    derive_from("");
    const ValueId largest =
        builder_.constant(builder_.type(norm), std::numeric_limits<float>::max(), "largest");
    is_finite_ = builder_.compare("le", norm, largest, "is_finite");
    builder_.graph().add_output("loss_scale", scaling_->scale);
    builder_.graph().add_output(
        "skipped",
        builder_.cast(builder_.op1("not", {*is_finite_}, {}, "overflow"), DType::kF32, "skipped"));
  }

  /// Halves the scale after an overflow, and doubles it after enough steps without.
  void next_scale() {
    const auto scope = builder_.scope("loss_scale");
    derive_from("");
    const ValueId steps = builder_.add_scalar(scaling_->steps, 1, "count");
    const ValueId enough = builder_.constant(
        builder_.type(steps), static_cast<double>(scaling_->settings.steps_to_double), "enough");
    const ValueId is_due = builder_.compare("ge", steps, enough, "is_due");
    const ValueId larger = builder_.min_scalar(builder_.mul_scalar(scaling_->scale, 2, "doubled"),
                                               kLargestLossScale, "larger");
    const ValueId smaller = builder_.max_scalar(builder_.mul_scalar(scaling_->scale, 0.5, "halved"),
                                                kLeastLossScale, "smaller");
    const ValueId zero = builder_.constant(builder_.type(steps), 0, "zero");
    const ValueId kept = builder_.select(is_due, larger, scaling_->scale, "kept");
    const ValueId counted = builder_.select(is_due, zero, steps, "counted");
    builder_.graph().set_next(scaling_->scale, builder_.select(*is_finite_, kept, smaller, "next"));
    builder_.graph().set_next(scaling_->steps,
                              builder_.select(*is_finite_, counted, zero, "steps.next"));
  }

  /// Sets the next value of a parameter or of its state. A step with an overflow keeps the value.
  void set_next(ValueId variable, ValueId next) {
    if (is_finite_) {
      const ValueId is_finite =
          builder_.broadcast(*is_finite_, builder_.shape(variable), {}, "is_finite");
      next = builder_.select(is_finite, next, variable, "kept");
    }
    builder_.graph().set_next(variable, next);
  }

  /// Scales every gradient by min(1, clip_norm / (norm + 1e-6)).
  void clip(std::vector<Parameter>& parameters) {
    const auto scope = builder_.scope("clip");
    const ValueId norm = global_norm(parameters);
    builder_.graph().add_output("grad_norm", norm);
    const ValueId bound = builder_.constant(builder_.type(norm), config_.clip_norm, "bound");
    const ValueId ratio =
        builder_.div(bound, builder_.add_scalar(norm, kNormEpsilon, "norm_plus"), "ratio");
    const ValueId scale = builder_.min_scalar(ratio, 1.0, "scale");
    for (Parameter& parameter : parameters) {
      derive_from(parameter.name);
      parameter.gradient = builder_.mul(
          parameter.gradient, fill(scale, parameter, parameter.name + ".fill"), parameter.name);
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

  Rates shared_rates(ValueId learning_rate, ValueId step) {
    const auto scope = builder_.scope("optimizer");
    derive_from("");
    Rates rates{.learning_rate = learning_rate};
    if (has_averages()) {
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
    if (decays_by_rate() && config_.weight_decay != 0)
      rates.decay = builder_.mul_scalar(learning_rate, config_.weight_decay, "decay");
    return rates;
  }

  /// The scalars of group `index`, which are those of all parameters where it does not differ.
  Rates rates_of(size_t index, const Rates& all) {
    const ParameterGroup& group = groups_[index];
    const auto scope = builder_.scope("optimizer.group" + std::to_string(index));
    derive_from("");
    Rates rates = all;
    if (group.rate != 1) {
      rates.learning_rate = builder_.mul_scalar(all.learning_rate, group.rate, "learning_rate");
      if (all.adam_rate) rates.adam_rate = builder_.mul_scalar(*all.adam_rate, group.rate, "rate");
    }
    const double decay = group.weight_decay.value_or(config_.weight_decay);
    if (decays_by_rate() && decay != 0 && (group.rate != 1 || group.weight_decay))
      rates.decay = builder_.mul_scalar(rates.learning_rate, decay, "decay");
    return rates;
  }

  ValueId add_state(const Parameter& parameter, std::string_view name) {
    return builder_.graph().add_variable(parameter.name + "." + std::string(name),
                                         builder_.type(parameter.value), Initializer::constant(0),
                                         false, {parameter.name, "optimizer"});
  }

  /// Moves the state towards `goal`: state + weight (goal - state). The state is an operand of the
  /// last op, so that this op may run in place.
  ValueId move_towards(ValueId state, ValueId goal, double weight, const std::string& name) {
    const ValueId step =
        builder_.mul_scalar(builder_.sub(goal, state, name + ".distance"), weight, name + ".step");
    const ValueId next = builder_.add(state, step, name);
    set_next(state, next);
    return next;
  }

  /// momentum * buffer + gradient, written as buffer + (gradient - (1 - momentum) buffer), so that
  /// the last op may run in place.
  ValueId momentum_step(const Parameter& parameter, ValueId gradient) {
    const ValueId buffer = add_state(parameter, "momentum");
    const ValueId fade = builder_.mul_scalar(buffer, 1 - config_.momentum, "momentum.fade");
    const ValueId next =
        builder_.add(buffer, builder_.sub(gradient, fade, "momentum.change"), "momentum");
    set_next(buffer, next);
    return next;
  }

  /// The direction before adam_rate: exp_avg / (sqrt(exp_avg_sq) + adam_epsilon).
  ValueId adam_direction(const Parameter& parameter, ValueId gradient, const Rates& rates) {
    const ValueId mean =
        move_towards(add_state(parameter, "exp_avg"), gradient, 1 - config_.beta1, "exp_avg");
    const ValueId square = builder_.unary("square", gradient, "square");
    const ValueId mean_square =
        move_towards(add_state(parameter, "exp_avg_sq"), square, 1 - config_.beta2, "exp_avg_sq");
    const ValueId epsilon = fill(*rates.adam_epsilon, parameter, "epsilon");
    return builder_.div(
        mean, builder_.add(builder_.unary("sqrt", mean_square, "root"), epsilon, "denominator"),
        "direction");
  }

  ValueId with_coupled_decay(const Parameter& parameter) {
    if (decays_apart() || parameter.weight_decay == 0) return parameter.gradient;
    return builder_.add(parameter.gradient,
                        builder_.mul_scalar(parameter.value, parameter.weight_decay, "decay"),
                        "decayed");
  }

  /// The norm of the parameter divided by that of the direction; 1 where one of them is 0.
  ValueId trust_ratio(const Parameter& parameter, ValueId direction) {
    const ValueId of_weight = norm_of(builder_, parameter.value, "weight_norm");
    const ValueId of_direction = norm_of(builder_, direction, "direction_norm");
    const TensorType type = builder_.type(of_weight);
    const ValueId is_usable = builder_.compare("gt", builder_.minimum(of_weight, of_direction),
                                               builder_.constant(type, 0, "zero"), "is_usable");
    // Sums in place of a selection: the verification knows how far they may be from exact ones.
    const ValueId one = builder_.constant(type, 1, "one");
    const ValueId used =
        builder_.select(is_usable, one, builder_.constant(type, 0, "zero"), "used");
    const ValueId unused = builder_.sub(one, used, "unused");
    const auto or_one = [&](ValueId norm, const std::string& name) {
      return builder_.add(builder_.mul(norm, used, name + ".used"), unused, name);
    };
    return builder_.div(or_one(of_weight, "numerator"), or_one(of_direction, "divisor"), "trust");
  }

  /// learning rate * trust ratio * (adam's direction + weight decay * parameter).
  ///   source  You et al., "Large batch optimization for deep learning", ICLR 2020
  ValueId lamb_step(const Parameter& parameter, const Rates& rates) {
    ValueId direction = builder_.mul(adam_direction(parameter, parameter.gradient, rates),
                                     fill(*rates.adam_scale, parameter, "scale"), "corrected");
    if (parameter.weight_decay != 0)
      direction = builder_.add(
          direction, builder_.mul_scalar(parameter.value, parameter.weight_decay, "decay"),
          "decayed");
    const ValueId rate =
        builder_.mul(rates.learning_rate, trust_ratio(parameter, direction), "trusted_rate");
    return builder_.mul(direction, fill(rate, parameter, "rate"), "step");
  }

  /// momentum * average + (1 - momentum) * gradient is the average; the gradient moves as far
  /// towards it again (Nesterov), and what comes of it is orthogonalized.
  ValueId muon_direction(const Parameter& parameter) {
    const ValueId average = move_towards(add_state(parameter, "momentum"), parameter.gradient,
                                         1 - config_.momentum, "momentum");
    const ValueId ahead =
        builder_.add(parameter.gradient,
                     builder_.mul_scalar(builder_.sub(average, parameter.gradient, "distance"),
                                         config_.momentum, "nesterov.step"),
                     "nesterov");
    return orthogonalized(builder_, ahead, *parameter.input_dims);
  }

  ValueId step_of(const Parameter& parameter, const Rates& rates) {
    if (parameter.kind == OptimizerKind::kLamb) return lamb_step(parameter, rates);
    ValueId direction = with_coupled_decay(parameter);
    if (parameter.kind == OptimizerKind::kMomentum) direction = momentum_step(parameter, direction);
    if (is_adam(parameter.kind)) direction = adam_direction(parameter, direction, rates);
    if (parameter.kind == OptimizerKind::kMuon) direction = muon_direction(parameter);
    const ValueId rate =
        fill(is_adam(parameter.kind) ? *rates.adam_rate : rates.learning_rate, parameter, "rate");
    const ValueId step = builder_.mul(direction, rate, "step");
    if (!decays_apart() || parameter.weight_decay == 0) return step;
    const ValueId decay =
        builder_.mul(parameter.value, fill(*rates.decay, parameter, "decay_rate"), "decay");
    return builder_.add(step, decay, "step_and_decay");
  }

  void update(const Parameter& parameter, const Rates& rates) {
    derive_from(parameter.name);
    const auto scope = builder_.scope(parameter.name + "." + std::string(to_text(parameter.kind)));
    const ValueId step = step_of(parameter, rates);
    set_next(parameter.value, builder_.sub(parameter.value, step, "next"));
  }

  Builder builder_;
  const OptimizerConfig& config_;
  const std::span<const ParameterGroup> groups_;
  const std::optional<Scaling> scaling_;
  std::optional<ValueId> is_finite_;  // bool[]: are all gradients? Only with scaling
};

void check_numbers(const ParameterGroup& group) {
  const double decay = group.weight_decay.value_or(0);
  if (group.rate >= 0 && std::isfinite(group.rate) && decay >= 0 && std::isfinite(decay)) return;
  throw UserError("the parameter group '" + group.pattern + "' has a rate of " +
                      std::to_string(group.rate) + " and a weight decay of " +
                      std::to_string(decay),
                  "both are numbers of at least 0", "give 0 or more", ExitCode::kBadConfig);
}

/// Gives each parameter its group and its weight decay.
void assign_groups(std::vector<Parameter>& parameters, std::span<const ParameterGroup> groups,
                   const OptimizerConfig& config) {
  for (Parameter& parameter : parameters) {
    const auto group = std::ranges::find_if(groups, [&](const ParameterGroup& candidate) {
      return matches(candidate.pattern, parameter.name);
    });
    if (group != groups.end()) parameter.group = static_cast<size_t>(group - groups.begin());
    parameter.weight_decay = parameter.is_decayed ? config.weight_decay : 0;
    if (group != groups.end())
      parameter.weight_decay = group->weight_decay.value_or(parameter.weight_decay);
  }
}

/// Refuses a group that no parameter belongs to.
void check_groups(std::span<const ParameterGroup> groups,
                  const std::vector<Parameter>& parameters) {
  for (size_t i = 0; i < groups.size(); ++i) {
    check_numbers(groups[i]);
    const auto is_in = [i](const Parameter& parameter) { return parameter.group == i; };
    if (std::ranges::any_of(parameters, is_in)) continue;
    const auto matching = std::ranges::find_if(parameters, [&](const Parameter& parameter) {
      return matches(groups[i].pattern, parameter.name);
    });
    throw UserError(
        "the parameter group '" + groups[i].pattern + "' has no parameter",
        matching == parameters.end()
            ? "no trainable variable has a name that matches; there is '" +
                  parameters.front().name + "'"
            : "an earlier group has all that match, such as '" + matching->name + "'",
        "correct the pattern, remove the group, or put it before the groups that match more",
        ExitCode::kBadConfig);
  }
}

/// The optimizer that updates each parameter.
void assign_kinds(std::vector<Parameter>& parameters, const OptimizerConfig& config) {
  const auto is_excepted = [&](const Parameter& parameter) {
    return !parameter.input_dims ||
           std::ranges::any_of(config.adam, [&](const std::string& pattern) {
             return matches(pattern, parameter.name);
           });
  };
  for (Parameter& parameter : parameters) {
    const bool is_muon = config.kind == OptimizerKind::kMuon;
    parameter.kind = is_muon && is_excepted(parameter) ? OptimizerKind::kAdamW : config.kind;
  }
}

/// Refuses a pattern that matches no trainable variable.
void check_patterns(const Graph& graph, const std::vector<std::string>& patterns,
                    const std::string& key) {
  std::vector<std::string> names;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) names.push_back(graph.value(variable.value).name);
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const auto& name) { return matches(pattern, name); }))
      continue;
    const std::string close = nearest(pattern, names);
    throw UserError(
        "the pattern '" + pattern + "' of " + key + " matches no parameter",
        "it names parameters of the model" +
            (names.empty() ? "" : ", such as '" + names.front() + "'"),
        close.empty() ? "correct the pattern, or remove it" : "did you mean '" + close + "'?",
        ExitCode::kBadConfig);
  }
}

std::vector<ParameterGradient> differentiated_parameters(Builder& builder, ValueId loss,
                                                         const std::vector<ValueId>& targets) {
  const std::vector<ValueId> gradients = differentiate(builder, loss, targets);
  std::vector<ParameterGradient> parameters;
  for (size_t i = 0; i < targets.size(); ++i)
    parameters.push_back(parameter_gradient(builder.graph(), targets[i], gradients[i]));
  return parameters;
}

}  // namespace

std::string_view to_text(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return "sgd";
    case OptimizerKind::kMomentum: return "momentum";
    case OptimizerKind::kAdam: return "adam";
    case OptimizerKind::kAdamW: return "adamw";
    case OptimizerKind::kLamb: return "lamb";
    case OptimizerKind::kMuon: return "muon";
  }
  throw InternalError("unknown optimizer");
}

OptimizerConfig with_measured_norm(OptimizerConfig config) {
  config.measure_norm = true;
  return config;
}

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

/// Adds the variables, and multiplies the loss by the scale.
Scaling scale_loss(Builder& builder, ValueId& loss, const LossScale& settings) {
  Graph& graph = builder.graph();
  const Origin origin{graph.op(graph.value(loss).producer).name, "loss scale"};
  const auto variable = [&](const std::string& name, double initial) {
    return graph.add_variable(graph.unique_name(name), {DType::kF32, {}},
                              Initializer::constant(initial), false, origin);
  };
  const Scaling scaling{settings, variable("loss_scale", settings.initial),
                        variable("loss_scale.steps", 0)};
  Builder writer(graph, builder.seed());
  writer.derive(Role::kForward, origin);
  loss = writer.mul(loss, scaling.scale, "loss_scale.loss");
  return scaling;
}

void write_updates(Builder& builder, const std::vector<ParameterGradient>& gradients,
                   const OptimizerConfig& config, std::span<const ParameterGroup> groups,
                   const std::optional<Scaling>& scaling) {
  std::vector<Parameter> parameters;
  for (const ParameterGradient& given : gradients)
    parameters.push_back({given.parameter, given.gradient,
                          builder.graph().value(given.parameter).name, given.is_decayed,
                          given.input_dims});
  assign_groups(parameters, groups, config);
  assign_kinds(parameters, config);
  check_groups(groups, parameters);
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
  std::optional<Scaling> scaling;
  if (scale) scaling = scale_loss(builder, loss, *scale);
  write_updates(builder, differentiated_parameters(builder, loss, targets), config, groups,
                scaling);
}

void add_updates(Builder& builder, const std::vector<ParameterGradient>& gradients,
                 const OptimizerConfig& config, std::span<const ParameterGroup> groups) {
  write_updates(builder, gradients, config, groups, {});
}

}  // namespace tessera
