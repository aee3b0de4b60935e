#include "ir/autodiff/internal/update_step.h"

#include "ir/autodiff/internal/orthogonal.h"

namespace tessera {
namespace {

bool is_adam(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW;
}

}  // namespace

bool has_averages(OptimizerKind kind) {
  return kind != OptimizerKind::kSgd && kind != OptimizerKind::kMomentum;
}

bool decays_apart(OptimizerKind kind) {
  return has_averages(kind) && kind != OptimizerKind::kAdam;
}

bool decays_by_rate(OptimizerKind kind) {
  return decays_apart(kind) && kind != OptimizerKind::kLamb;
}

void derive_optimizer(Builder& builder, std::string source) {
  builder.derive(Role::kOptimizer, {std::move(source), "optimizer"});
}

ValueId fill(Builder& builder, ValueId scalar, const TrainedParameter& parameter,
             std::string_view name) {
  return builder.broadcast(scalar, builder.shape(parameter.value), {}, name);
}

/// Sets the next value of a parameter or of its state. A step with an overflow keeps the value.
void StepWriter::set_next(ValueId variable, ValueId next) {
  if (is_finite_) {
    const ValueId is_finite =
        builder_.broadcast(*is_finite_, builder_.shape(variable), {}, "is_finite");
    next = builder_.select(is_finite, next, variable, "kept");
  }
  builder_.graph().set_next(variable, next);
}

ValueId StepWriter::add_state(const TrainedParameter& parameter, std::string_view name) {
  return builder_.graph().add_variable(parameter.name + "." + std::string(name),
                                       builder_.type(parameter.value), Initializer::constant(0),
                                       false, {parameter.name, "optimizer"});
}

/// Moves the state towards `goal`: state + weight (goal - state). The state is an operand of the
/// last op, so that this op may run in place.
ValueId StepWriter::move_towards(ValueId state, ValueId goal, double weight,
                                 const std::string& name) {
  const ValueId step =
      builder_.mul_scalar(builder_.sub(goal, state, name + ".distance"), weight, name + ".step");
  const ValueId next = builder_.add(state, step, name);
  set_next(state, next);
  return next;
}

/// momentum * buffer + gradient, written as buffer + (gradient - (1 - momentum) buffer), so that
/// the last op may run in place.
ValueId StepWriter::momentum_step(const TrainedParameter& parameter, ValueId gradient) {
  const ValueId buffer = add_state(parameter, "momentum");
  const ValueId fade = builder_.mul_scalar(buffer, 1 - config_.momentum, "momentum.fade");
  const ValueId next =
      builder_.add(buffer, builder_.sub(gradient, fade, "momentum.change"), "momentum");
  set_next(buffer, next);
  return next;
}

/// The direction before adam_rate: exp_avg / (sqrt(exp_avg_sq) + adam_epsilon).
ValueId StepWriter::adam_direction(const TrainedParameter& parameter, ValueId gradient,
                                   const UpdateRates& rates) {
  const ValueId mean =
      move_towards(add_state(parameter, "exp_avg"), gradient, 1 - config_.beta1, "exp_avg");
  const ValueId square = builder_.unary("square", gradient, "square");
  const ValueId mean_square =
      move_towards(add_state(parameter, "exp_avg_sq"), square, 1 - config_.beta2, "exp_avg_sq");
  const ValueId epsilon = fill(builder_, *rates.adam_epsilon, parameter, "epsilon");
  return builder_.div(
      mean, builder_.add(builder_.unary("sqrt", mean_square, "root"), epsilon, "denominator"),
      "direction");
}

ValueId StepWriter::with_coupled_decay(const TrainedParameter& parameter) {
  if (decays_apart(config_.kind) || parameter.weight_decay == 0) return parameter.gradient;
  return builder_.add(parameter.gradient,
                      builder_.mul_scalar(parameter.value, parameter.weight_decay, "decay"),
                      "decayed");
}

/// The norm of the parameter divided by that of the direction; 1 where one of them is 0.
ValueId StepWriter::trust_ratio(const TrainedParameter& parameter, ValueId direction) {
  const ValueId of_weight = norm_of(builder_, parameter.value, "weight_norm");
  const ValueId of_direction = norm_of(builder_, direction, "direction_norm");
  const TensorType type = builder_.type(of_weight);
  const ValueId is_usable = builder_.compare("gt", builder_.minimum(of_weight, of_direction),
                                             builder_.constant(type, 0, "zero"), "is_usable");
  // Sums in place of a selection: the verification knows how far they may be from exact ones.
  const ValueId one = builder_.constant(type, 1, "one");
  const ValueId used = builder_.select(is_usable, one, builder_.constant(type, 0, "zero"), "used");
  const ValueId unused = builder_.sub(one, used, "unused");
  const auto or_one = [&](ValueId norm, const std::string& name) {
    return builder_.add(builder_.mul(norm, used, name + ".used"), unused, name);
  };
  return builder_.div(or_one(of_weight, "numerator"), or_one(of_direction, "divisor"), "trust");
}

/// learning rate * trust ratio * (adam's direction + weight decay * parameter).
///   source  You et al., "Large batch optimization for deep learning", ICLR 2020
ValueId StepWriter::lamb_step(const TrainedParameter& parameter, const UpdateRates& rates) {
  ValueId direction =
      builder_.mul(adam_direction(parameter, parameter.gradient, rates),
                   fill(builder_, *rates.adam_scale, parameter, "scale"), "corrected");
  if (parameter.weight_decay != 0)
    direction = builder_.add(direction,
                             builder_.mul_scalar(parameter.value, parameter.weight_decay, "decay"),
                             "decayed");
  const ValueId rate =
      builder_.mul(rates.learning_rate, trust_ratio(parameter, direction), "trusted_rate");
  return builder_.mul(direction, fill(builder_, rate, parameter, "rate"), "step");
}

/// momentum * average + (1 - momentum) * gradient is the average; the gradient moves as far
/// towards it again (Nesterov), and what comes of it is orthogonalized.
ValueId StepWriter::muon_direction(const TrainedParameter& parameter) {
  const ValueId average = move_towards(add_state(parameter, "momentum"), parameter.gradient,
                                       1 - config_.momentum, "momentum");
  const ValueId ahead =
      builder_.add(parameter.gradient,
                   builder_.mul_scalar(builder_.sub(average, parameter.gradient, "distance"),
                                       config_.momentum, "nesterov.step"),
                   "nesterov");
  return orthogonalized(builder_, ahead, *parameter.input_dims);
}

ValueId StepWriter::step_of(const TrainedParameter& parameter, const UpdateRates& rates) {
  if (parameter.kind == OptimizerKind::kLamb) return lamb_step(parameter, rates);
  ValueId direction = with_coupled_decay(parameter);
  if (parameter.kind == OptimizerKind::kMomentum) direction = momentum_step(parameter, direction);
  if (is_adam(parameter.kind)) direction = adam_direction(parameter, direction, rates);
  if (parameter.kind == OptimizerKind::kMuon) direction = muon_direction(parameter);
  const ValueId rate =
      fill(builder_, is_adam(parameter.kind) ? *rates.adam_rate : rates.learning_rate, parameter,
           "rate");
  const ValueId step = builder_.mul(direction, rate, "step");
  if (!decays_apart(config_.kind) || parameter.weight_decay == 0) return step;
  const ValueId decay =
      builder_.mul(parameter.value, fill(builder_, *rates.decay, parameter, "decay_rate"), "decay");
  return builder_.add(step, decay, "step_and_decay");
}

void StepWriter::update(const TrainedParameter& parameter, const UpdateRates& rates) {
  derive_optimizer(builder_, parameter.name);
  const auto scope = builder_.scope(parameter.name + "." + std::string(to_text(parameter.kind)));
  const ValueId step = step_of(parameter, rates);
  set_next(parameter.value, builder_.sub(parameter.value, step, "next"));
}

}  // namespace tessera
