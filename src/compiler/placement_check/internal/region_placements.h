// The placements that the regions of a While and an If must have, derived from those of its op.
#pragma once

#include <vector>

#include "ir/graph/graph.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The placements of the operands and results of a region, on its mesh with the micro-batch axis.
struct RegionPlacements {
  std::vector<DistAttr> inputs;
  std::vector<DistAttr> outputs;
  /// Whether the outputs replace the first inputs, as those of the body of a loop do. Otherwise
  /// they are results.
  bool carries = false;
};

/// Checks that a kernel runs the regions of its op, and as many iterations.
///   throws  InternalError
void check_control(const Op& op, const KernelStep& step);

/// The placements of each region of `op`.
///
///   inputs   of the op
///   outputs  of the op, as declared
///   results  the outputs with the partial axes that the op makes. The loop that makes a partial
///            sum carries partial values from its beginning: the first rank has the operand, the
///            others have zeros
///   throws   InternalError when a loop takes another placement than it carries
std::vector<RegionPlacements> derive_regions(const Op& op,
                                             const std::vector<const DistAttr*>& inputs,
                                             const std::vector<DistAttr>& outputs,
                                             const std::vector<DistAttr>& results);

}  // namespace tessera
