// Optimizers, gradient clipping and learning-rate schedules, as ops of the serial graph and numbers
// of the host.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/builder.h"

namespace tessera {

enum class OptimizerKind { kSgd, kMomentum, kAdam, kAdamW, kLamb, kMuon };
std::string_view to_text(OptimizerKind kind);  // "sgd", "momentum", "adam", "adamw", "lamb", "muon"

enum class ScheduleKind { kConstant, kCosine, kLinear };
std::string_view to_text(ScheduleKind kind);  // "constant", "cosine", "linear"

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double peak = 1e-3;  // rate after the warm-up
  /// The number of steps in which the rate rises linearly: step t has (t + 1) / warmup of the
  /// distance from the start to the peak.
  int64_t warmup = 0;
  /// The number of all steps, for cosine and linear: the rate falls from peak to peak * final at
  /// the last step.
  int64_t steps = 0;
  double final = 0;         // fraction of the peak
  double warmup_start = 0;  // fraction of the peak from which the warm-up rises
};
/// The rate of step `step`, counted from 0.
double learning_rate(const Schedule& schedule, int64_t step);

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double momentum = 0.9;              // momentum, muon
  double beta1 = 0.9, beta2 = 0.999;  // adam, adamw, lamb; muon: of what it updates as adamw
  double epsilon = 1e-8;              // the same
  /// sgd, momentum, adam: added to the gradient; the others: decoupled. Only where is_decayed().
  double weight_decay = 0;
  /// muon: parameters that it updates as adamw, beside those that are no matrices of linear layers.
  std::vector<std::string> adam = {};
  /// Parameters that keep their values: they have no gradient and no state. Patterns as in marks.
  std::vector<std::string> frozen = {};
  double clip_norm = 0;  // > 0: gradients are scaled by min(1, clip_norm / (global norm + 1e-6))
  bool measure_norm = false;  // the output "grad_norm", also without clipping
  Schedule schedule = {};
};

OptimizerConfig with_measured_norm(OptimizerConfig config);

/// Settings of some parameters. A parameter belongs to the first group whose pattern matches its
/// name; one that belongs to none has the settings of OptimizerConfig.
struct ParameterGroup {
  std::string pattern;  // as in marks (base/text.h): "*.bias", "{stem,head}.*"
  double rate = 1;      // factor of the learning rate; 0: the parameters keep their values
  /// In place of OptimizerConfig::weight_decay, for parameters of any rank. nullopt: that of the
  /// configuration, which leaves out biases and norms.
  std::optional<double> weight_decay = {};
};

/// The names of the two scalar inputs of every training graph: f32[], and i32[] counted from 0.
inline constexpr std::string_view kLearningRateInput = "learning_rate";
inline constexpr std::string_view kStepInput = "step";

/// Dynamic scaling of the loss, for gradients in f16. The loss is multiplied by a variable, the
/// gradients are divided by it. A step with a gradient that is not finite changes nothing but the
/// scale, which is halved; after a number of other steps it is doubled.
///   source  Micikevicius et al., "Mixed Precision Training", ICLR 2018
struct LossScale {
  double initial = 65536;
  int64_t steps_to_double = 2000;  // without a gradient that is not finite
};
inline constexpr double kLeastLossScale = 1, kLargestLossScale = 0x1p24;

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

/// A variable and the gradient for its update.
struct ParameterGradient {
  ValueId parameter;
  ValueId gradient;
  bool is_decayed = true;  // unless its group has a weight decay of its own
  /// input_dims_of_weight (ops/parameter_roles.h): muon orthogonalizes those that have them.
  std::optional<int> input_dims = {};
};
/// What an update has to know of the parameter beside its gradient.
///   graph  with the forward
ParameterGradient parameter_gradient(const Graph& graph, ValueId parameter, ValueId gradient);

/// The second half of add_training: clipping and the updates, from gradients that already exist.
void add_updates(Builder& builder, const std::vector<ParameterGradient>& gradients,
                 const OptimizerConfig& config, std::span<const ParameterGroup> groups = {});

}  // namespace tessera
