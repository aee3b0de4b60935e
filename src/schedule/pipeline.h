// The order in which the stages of a pipeline do their work of a step. This file knows pieces of
// work and their dependences, not what they compute.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/named_orders.h"
#include "schedule/pipeline_step.h"

namespace tessera {

struct PipelineOrder {
  std::vector<int> order;  // indices into `work`
  std::vector<std::optional<PassKind>>
      passes;           // by piece: the pass that it is part of; none: it is done once a step
  PipelineShape shape;  // times are sums of `work`, a transfer a hundredth of a micro-batch's on
                        // the busiest device; a stage takes one over the stages of its device
  DeviceOrders orders;
};

/// An order of all pieces in which each comes after what it needs, and on each device: first what
/// is done once and what any micro-batch needs of it (the prologue), then the passes as the
/// schedule says, then the rest (the epilogue: the optimizer). A device begins its epilogue when
/// its own passes are over, whatever the others still do.
///
///   passes   forward pieces of a stage and micro-batch are its F. Of a schedule that splits the
///   backward, a piece is part of B when
///            another stage's backward needs it, directly or not, and of W else. Where no other
///            stage needs anything (the first one) B is what leads to the last link of the longest
///            chain: there, gradients of activations follow each other, and those of weights branch
///            off
///   stages   form a DAG by what their pieces need of each other
///   across   devices, pieces stand in the order of the simulated clock
///   throws   UserError (78) when the schedule does not fit the stages, or these need each other in
///   a cycle
PipelineOrder pipeline_order(const std::vector<PipelineStep>& work, const PipelineOptions& options);

/// What the order is worth on the simulated clock, in times of a micro-batch on the busiest device,
/// as estimated: a line a device with the bubbles of its span (from its first pass to its last) and
/// of the whole step (all wait for the last one, as before the optimizer of a global clip) and the
/// micro-batches in flight at most; then the step and a lower bound of any order.
///
///     device 0 (first): busy 4.00, bubble 12.0% of its span, 19.4% of the step, max in flight 2
///     step 4.96, no order is below 4.50: device 1 is busy for 4, and 0.5 come before and after
std::string worth_text(const PipelineOrder& made, const std::vector<std::string>& stage_names);

}  // namespace tessera
