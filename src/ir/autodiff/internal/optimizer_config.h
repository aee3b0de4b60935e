// What is decided about the training of parameters: the optimizer, its settings, groups of
// parameters, the schedule of the learning rate, the scale of the loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

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
  /// the last step. 0: an engine takes TrainConfig::steps.
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
  std::string pattern;  // as in marks (base/text/text.h): "*.bias", "{stem,head}.*"
  double rate = 1;      // factor of the learning rate; 0: the parameters keep their values
  /// In place of OptimizerConfig::weight_decay, for parameters of any rank. nullopt: that of the
  /// configuration, which leaves out biases and norms.
  std::optional<double> weight_decay = {};
};

/// Dynamic scaling of the loss, for gradients in f16. The loss is multiplied by a variable, the
/// gradients are divided by it. A step with a gradient that is not finite changes nothing but the
/// scale, which is halved; after a number of other steps it is doubled.
///   source  Micikevicius et al., "Mixed Precision Training", ICLR 2018
struct LossScale {
  double initial = 65536;
  int64_t steps_to_double = 2000;  // without a gradient that is not finite
};
inline constexpr double kMinLossScale = 1, kLargestLossScale = 0x1p24;

/// A variable and the gradient for its update.
struct ParameterGradient {
  ValueId parameter;
  ValueId gradient;
  bool is_decayed = true;  // unless its group has a weight decay of its own
  /// input_dims_of_weight (ir/ops/parameter_roles.h): muon orthogonalizes those that have them.
  std::optional<int> input_dims = {};
};

}  // namespace tessera
