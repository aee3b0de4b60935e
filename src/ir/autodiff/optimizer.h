// Optimizers, gradient clipping and learning-rate schedules, as ops of the serial graph and numbers
// of the host.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/autodiff/internal/optimizer_config.h"
#include "ir/graph/graph.h"
#include "ir/ops/builder.h"

namespace tessera {

/// The names of the two scalar inputs of every training graph: f32[], and i32[] counted from 0.
inline constexpr std::string_view kLearningRateInput = "learning_rate";
inline constexpr std::string_view kStepInput = "step";

/// The parameters that are trained: the trainable variables that match none of `config.frozen` and,
/// unless `trained` is empty, one of its patterns.
///   throws  UserError: 65 when there are none; 78 for a pattern of `config.frozen` that matches no
///           trainable variable
std::vector<ValueId> trained_parameters(const Graph& graph, const OptimizerConfig& config,
                                        std::span<const std::string> trained = {});

/// Appends backward of `loss` and the update of every trained parameter.
///
///   trained   patterns of parameters, of which only those are trained; empty: of all
///   requires  graph inputs "learning_rate" f32[] and "step" i32[] exist, or do not exist yet; then
///             they are added
///   ensures   every trained parameter has a next. Optimizer state is a variable
///             `<parameter>.momentum`, `<parameter>.exp_avg`, `<parameter>.exp_avg_sq` of the
///             parameter's type with origin {parameter, "optimizer"}. The output "grad_norm"
///             (global norm before clipping) is added when clip_norm > 0 or measure_norm. New ops
///             have role optimizer and names `<parameter>.<optimizer>...`; ops of the clip are
///             called `clip...`, scalars of all parameters `optimizer...`, those of group 2
///             `optimizer.group2...`.
///             What the optimizers compute: docs/training.md#optimizers
///   scale     when given: variables `loss_scale` and `loss_scale.steps`, f32[]; the outputs
///             "loss_scale" and "skipped" (1 when the step changed no parameter and no state). One
///             check serves all ranks and stages: that the global norm is finite
///   throws    UserError: 65 when nothing is trained; 78 for a group that matches no parameter,
///             or has a negative number
void add_training(Builder& builder, ValueId loss, const OptimizerConfig& config,
                  std::span<const ParameterGroup> groups = {},
                  std::span<const std::string> trained = {},
                  const std::optional<LossScale>& scale = {});

/// Does weight decay apply to the parameter? Not to biases and norms: parameters of rank below 2,
/// and those that the forward only adds to results of products.
///   graph  with the forward
bool is_decayed(const Graph& graph, ValueId parameter);

/// What an update has to know of the parameter beside its gradient.
///   graph  with the forward
ParameterGradient parameter_gradient(const Graph& graph, ValueId parameter, ValueId gradient);

/// The second half of add_training: clipping and the updates, from gradients that already exist.
void add_updates(Builder& builder, const std::vector<ParameterGradient>& gradients,
                 const OptimizerConfig& config, std::span<const ParameterGroup> groups = {});

}  // namespace tessera
