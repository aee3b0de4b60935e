#include "ir/autodiff/internal/loss_scaling.h"

#include <limits>

#include "ir/autodiff/internal/update_step.h"

namespace tessera {

LossScaling scale_loss(Builder& builder, ValueId& loss, const LossScale& settings) {
  Graph& graph = builder.graph();
  const Origin origin{graph.op(graph.value(loss).producer).name, "loss scale"};
  const auto variable = [&](const std::string& name, double initial) {
    return graph.add_variable(graph.unique_name(name), {DType::kF32, {}},
                              Initializer::constant(initial), false, origin);
  };
  const LossScaling scaling{settings, variable("loss_scale", settings.initial),
                            variable("loss_scale.steps", 0)};
  Builder writer(graph, builder.seed());
  writer.derive(Role::kForward, origin);
  loss = writer.mul(loss, scaling.scale, "loss_scale.loss");
  return scaling;
}

void unscale(Builder& builder, const LossScaling& scaling,
             std::vector<TrainedParameter>& parameters) {
  const auto scope = builder.scope("loss_scale");
  derive_optimizer(builder, "");
  const ValueId one = builder.constant({DType::kF32, {}}, 1, "one");
  const ValueId inverse = builder.div(one, scaling.scale, "inverse");
  for (TrainedParameter& parameter : parameters) {
    derive_optimizer(builder, parameter.name);
    parameter.gradient =
        builder.mul(parameter.gradient, fill(builder, inverse, parameter, parameter.name + ".fill"),
                    parameter.name);
  }
}

ValueId gradients_are_finite(Builder& builder, const LossScaling& scaling, ValueId norm) {
  const auto scope = builder.scope("loss_scale");
  derive_optimizer(builder, "");
  const ValueId largest =
      builder.constant(builder.type(norm), std::numeric_limits<float>::max(), "largest");
  const ValueId is_finite = builder.compare("le", norm, largest, "is_finite");
  builder.graph().add_output("loss_scale", scaling.scale);
  builder.graph().add_output(
      "skipped",
      builder.cast(builder.op1("not", {is_finite}, {}, "overflow"), DType::kF32, "skipped"));
  return is_finite;
}

void set_next_scale(Builder& builder, const LossScaling& scaling, ValueId is_finite) {
  const auto scope = builder.scope("loss_scale");
  derive_optimizer(builder, "");
  const ValueId steps = builder.add_scalar(scaling.steps, 1, "count");
  const ValueId enough = builder.constant(
      builder.type(steps), static_cast<double>(scaling.settings.steps_to_double), "enough");
  const ValueId is_due = builder.compare("ge", steps, enough, "is_due");
  const ValueId larger = builder.min_scalar(builder.mul_scalar(scaling.scale, 2, "doubled"),
                                            kLargestLossScale, "larger");
  const ValueId smaller = builder.max_scalar(builder.mul_scalar(scaling.scale, 0.5, "halved"),
                                             kMinLossScale, "smaller");
  const ValueId zero = builder.constant(builder.type(steps), 0, "zero");
  const ValueId kept = builder.select(is_due, larger, scaling.scale, "kept");
  const ValueId counted = builder.select(is_due, zero, steps, "counted");
  builder.graph().set_next(scaling.scale, builder.select(is_finite, kept, smaller, "next"));
  builder.graph().set_next(scaling.steps, builder.select(is_finite, counted, zero, "steps.next"));
}

}  // namespace tessera
