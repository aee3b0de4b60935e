// The order in which the stages of a pipeline do the work of a step. This file knows pieces of work
// and their dependences, not what they compute.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/schedule/clock.h"
#include "compiler/schedule/internal/lower_bound.h"
#include "compiler/schedule/internal/pipeline_step.h"
#include "compiler/schedule/named_orders.h"

namespace tessera {

struct PipelineOrder {
  std::vector<int> order;  // indices into `work`
  /// By piece: its pass; nullopt: it is done once per step.
  std::vector<std::optional<PassKind>> passes;
  /// Times are sums of `work`, and PipelineOptions::transfer. A stage takes one over the number of
  /// stages of its device.
  PipelineShape shape;
  DeviceOrders orders;
};

/// An order of all pieces in which each comes after its needs. On each device the order has three
/// parts. The prologue is the pieces that are done once and that a micro-batch needs. The passes
/// follow in the order of the schedule. The epilogue is the rest, such as the optimizer. A device
/// begins its epilogue when its own passes are done, even if others still have some.
///
///   passes   the forward pieces of a stage and micro-batch are its F. In a schedule that splits
///            the backward, a piece is part of B when the backward of another stage needs it,
///            directly or not, and else part of W. Where no other stage needs a piece (the first
///            stage), B is the pieces that lead to the last link of the longest chain: there,
///            gradients of activations follow each other, and those of weights branch off
///   stages   form a DAG by the needs of their pieces
///   across   devices, pieces are in the order of the simulated clock
///   throws   UserError (78) when the schedule does not fit the stages, or these need each other in
///            a cycle
PipelineOrder pipeline_order(const std::vector<PipelineStep>& work, const PipelineOptions& options);

/// The estimated result of an order on the simulated clock, in times of a micro-batch on the
/// busiest device.
struct PipelineWorth {
  std::vector<DeviceUse> devices;
  std::vector<std::vector<int>> stages;  // by device
  double step = 0;
  PipelineBound bound;

  /// The part of the step in which a device has no work: 0.25. All devices wait for the last one.
  double bubble(size_t device) const;
  double mean_bubble() const;
};
PipelineWorth worth_of(const PipelineOrder& made);

/// worth_of as text. It has one line per device with the bubble of its span (from its first pass to
/// its last), the bubble of the whole step (all wait for the last device, as before the optimizer
/// of a global clip) and the largest number of micro-batches in flight. The step and a lower bound
/// of all orders follow.
///
///     device 0 (first): busy 4.00, bubble 12.0% of its span, 19.4% of the step, max in flight 2
///     step 4.96, no order is below 4.50: device 1 is busy for 4, and 0.5 come before and after
std::string worth_text(const PipelineOrder& made, const std::vector<std::string>& stage_names);

}  // namespace tessera
