// A training step in three parts: gradients are accumulated where they are produced, reduced once
// over the ranks, and applied. Each part is a graph of its own.
//
// Between the parts, gradients are variables:
//
//     <parameter>.accumulated   as backward produces it: under data parallelism it is Partial, and
//                               each rank has its own partial value
//     <parameter>.reduced       placed as the parameter is, summed over the ranks
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/lower/lower.h"
#include "compiler/plan/plan.h"
#include "ir/graph/graph.h"
#include "ir/models/network.h"
#include "training/config/config.h"
#include "training/engine/internal/programs/planned_program.h"

namespace tessera {

/// The input of the last part by which the sums of gradients are scaled.
inline constexpr std::string_view kGradientScaleInput = "gradient_scale";

std::string accumulated_name(const std::string& parameter);
std::string reduced_name(const std::string& parameter);

/// A gradient as backward has produced it.
struct MadeGradient {
  std::string parameter;  // name of the variable
  std::string gradient;   // name of its gradient's value
  TensorType type;
  DistAttr attr;           // on a mesh of ranks
  std::string mesh;        // the mesh that produces it
  std::string owner_mesh;  // the mesh that keeps the parameter
  bool is_decayed = true;
  std::optional<int> input_dims = {};  // ParameterGradient::input_dims
};

/// Groups of gradients that one exchange may carry. The gradients of a group are produced on one
/// mesh, divided in no dim, and partial over the same axes.
std::vector<std::vector<MadeGradient>> fusible(const std::vector<MadeGradient>& gradients);

struct StepParts {
  std::vector<MadeGradient> gradients;
  std::vector<PlannedProgram> parts;  // kAccumulate, kReduceGradients, kApplyGradients
};

/// The parts of the step of `training`, which share its variables: the marks of the plan place
/// them, or its explicit shardings.
///   training  as placed under the plan
StepParts step_parts(const Network& network, const TrainingSettings& settings, const Plan& plan,
                     const PlacedGraph& training);

}  // namespace tessera
