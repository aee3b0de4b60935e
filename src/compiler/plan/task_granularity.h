// Which kernels share a task: a decision of the plan.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// A task is a run of kernels without an exchange between them. It always ends where role, stage,
/// micro-batch or pass change.
struct TaskGranularity {
  enum class Kind {
    kRole,  // it ends nowhere else
    /// It ends where a repeated layer of the model begins or ends (ir/graph/repeated_layers.h).
    kLayer,
    kOp,        // each kernel is a task
    kPatterns,  // it ends between ops whose names do not match the same of `patterns`
  };
  Kind kind = Kind::kRole;
  /// Of matches() in base/text/text.h; the first that an op matches counts. Ops that match none are
  /// together.
  std::vector<std::string> patterns = {};

  bool operator==(const TaskGranularity&) const = default;
};

}  // namespace tessera
