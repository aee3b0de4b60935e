// The parameters of one training graph, with what their updates need: the group of each, its
// optimizer, its weight decay.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/autodiff/internal/optimizer_config.h"
#include "ir/ops/builder.h"

namespace tessera {

/// A variable under training, the gradient for its update, and its settings.
struct TrainedParameter {
  ValueId value;
  ValueId gradient;
  std::string name;
  bool is_decayed = true;
  std::optional<int> input_dims = {};  // of the weight of a linear layer
  std::optional<size_t> group = {};    // the first one that matches
  double weight_decay = 0;
  OptimizerKind kind = OptimizerKind::kAdamW;  // that updates it
};

/// What the updates of `gradients` need.
///   throws  UserError (78) for a group of bad numbers, or one that no parameter belongs to
std::vector<TrainedParameter> with_settings(const Graph& graph,
                                            std::span<const ParameterGradient> gradients,
                                            const OptimizerConfig& config,
                                            std::span<const ParameterGroup> groups);

/// Refuses a pattern of `key` that matches no trainable variable.
///   throws  UserError (78)
void check_patterns(const Graph& graph, const std::vector<std::string>& patterns,
                    const std::string& key);

}  // namespace tessera
