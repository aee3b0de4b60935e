// What no order of passes can be better than.
#pragma once

#include <string>

#include "schedule/passes.h"

namespace tessera {

/// Why a step, or the span of a device from its first to its last pass, takes at least so long.
struct PipelineBound {
  double time = 0;
  std::string why;  // "device 3 is busy for ...", with numbers
};

/// Of the whole step. The largest of:
///   path    one micro-batch through all its passes
///   busy    a device: what comes before its first pass, all its passes, what must come after the
///   last of those that others wait for memory  a stage that keeps at most N micro-batches: N more
///   begin only after N are given back, the time from F to W (or B) later
///           (a cycle of the marked graph with N tokens: T >= latency / N)
PipelineBound bound_of_step(const PipelineShape& shape);

/// Of the longest span. The same without what comes before the first pass of a device and after its
/// last.
PipelineBound bound_of_span(const PipelineShape& shape);

}  // namespace tessera
