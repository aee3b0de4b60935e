// The update of one parameter, as ops of the serial graph: what each optimizer subtracts from it,
// and the next values of its state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/autodiff/internal/optimizer_config.h"
#include "ir/autodiff/internal/trained_parameter.h"
#include "ir/ops/builder.h"

namespace tessera {

/// Has any parameter the two averages of adam?
bool has_averages(OptimizerKind kind);
/// Is the decay no part of the gradient?
bool decays_apart(OptimizerKind kind);
/// Is the decay a term of the step? Of lamb it is one of the direction.
bool decays_by_rate(OptimizerKind kind);

/// Scalars that all parameters of a group share.
struct UpdateRates {
  ValueId learning_rate;
  // p -= adam_rate * exp_avg / (sqrt(exp_avg_sq) + adam_epsilon). The two bias corrections c1, c2
  // are in these scalars, so that they cost no pass over the parameter: lr (m / c1) / (sqrt(v / c2)
  // + e) = (lr sqrt(c2) / c1) m / (sqrt(v) + e sqrt(c2))
  std::optional<ValueId> adam_rate = {};
  std::optional<ValueId> adam_epsilon = {};
  std::optional<ValueId> adam_scale = {};  // lamb: adam_rate without the learning rate
  std::optional<ValueId> decay = {};       // learning rate * weight decay
};

/// What `builder` adds next belongs to the optimizer, and comes from the parameter `source`, or
/// from none of them ("").
void derive_optimizer(Builder& builder, std::string source);

/// Makes `scalar` as large as the parameter.
ValueId fill(Builder& builder, ValueId scalar, const TrainedParameter& parameter,
             std::string_view name);

class StepWriter {
 public:
  /// Both live longer than the writer.
  ///   is_finite  bool[], or none: a step where it is false keeps all variables
  StepWriter(Builder& builder, const OptimizerConfig& config, std::optional<ValueId> is_finite)
      : builder_(builder), config_(config), is_finite_(is_finite) {}

  /// Sets the next values of the parameter and of its state.
  void update(const TrainedParameter& parameter, const UpdateRates& rates);

 private:
  void set_next(ValueId variable, ValueId next);
  ValueId add_state(const TrainedParameter& parameter, std::string_view name);
  ValueId move_towards(ValueId state, ValueId goal, double weight, const std::string& name);
  ValueId momentum_step(const TrainedParameter& parameter, ValueId gradient);
  ValueId adam_direction(const TrainedParameter& parameter, ValueId gradient,
                         const UpdateRates& rates);
  ValueId with_coupled_decay(const TrainedParameter& parameter);
  ValueId trust_ratio(const TrainedParameter& parameter, ValueId direction);
  ValueId lamb_step(const TrainedParameter& parameter, const UpdateRates& rates);
  ValueId muon_direction(const TrainedParameter& parameter);
  ValueId step_of(const TrainedParameter& parameter, const UpdateRates& rates);

  Builder& builder_;
  const OptimizerConfig& config_;
  const std::optional<ValueId> is_finite_;
};

}  // namespace tessera
