// Operators of a user's program. A graph carries the set that its ops are from, so there is no
// global registry.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/ops/operator.h"
#include "kernels/kernel_set.h"

namespace tessera {

/// The operators of a user, and the kernels that they call, in addition to the built-in ones.
///
///     const auto own = std::make_shared<const OperatorSet>(
///         std::vector{rms_scale}, std::vector{NamedKernel{"rms_scale", bind_rms_scale}});
///     Graph graph(own);
///
/// Everything else works as for built-in operators: types, gradient, placements, local shapes,
/// execution and the reference interpreter.
///   threads  it never changes, so all threads may read it
class OperatorSet {
 public:
  ///   throws  UserError (65) when an operator lacks a member other than rule and gradient, or when
  ///           its name is not legal in the text form of a graph, occurs twice or is that of a
  ///           built-in operator; for kernels, as KernelSet
  OperatorSet(std::vector<Operator> operators, std::vector<NamedKernel> kernels);

  /// nullptr when the set does not have the operator.
  const Operator* find(std::string_view name) const;
  std::span<const Operator> operators() const { return operators_; }
  const std::shared_ptr<const KernelSet>& kernels() const { return kernels_; }

 private:
  std::vector<Operator> operators_;
  std::shared_ptr<const KernelSet> kernels_;
};

/// The kernels that the graph's own operators call; nullptr when it has none.
std::shared_ptr<const KernelSet> own_kernels(const Graph& graph);

}  // namespace tessera
