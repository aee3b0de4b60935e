// Lower bounds of all orders of passes.
#pragma once

#include <string>

#include "compiler/schedule/internal/passes.h"

namespace tessera {

/// A lower bound of a step, or of the span of a device from its first to its last pass, with its
/// reason.
struct PipelineBound {
  double time = 0;
  std::string why;  // "device 3 is busy for ...", with numbers
};

/// The bound of the whole step. It is the largest of:
///   path    one micro-batch through all its passes
///   busy    a device: the passes before its first pass, all its passes, and the passes that must
///           follow the last of those that others wait for
///   memory  a stage that keeps at most N micro-batches: N more begin only after N are released,
///           the time from F to W (or B) later (a cycle of the marked graph with N tokens: T >=
///           latency / N)
PipelineBound bound_of_step(const PipelineShape& shape);

/// The bound of the longest span. It is the same without the passes before the first pass of a
/// device and after its last.
PipelineBound bound_of_span(const PipelineShape& shape);

}  // namespace tessera
