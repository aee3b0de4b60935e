// In which order the stages of a pipeline do their work of a step. It knows pieces of work and who
// needs whom; not what they compute.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "schedule/named_orders.h"

namespace tessera {

/// A piece of work in program order.
struct PipelineStep {
  int stage = 0;
  Role role = Role::kForward;
  int micro_batch = -1;    // -1: once a step
  std::vector<int> needs;  // indices of earlier pieces
  double work = 0;  // how long it takes, in a unit of the caller's choice; `auto` and the order
                    // across devices go by it
};

struct PipelineOptions {
  PipelineKind kind = PipelineKind::kOneForwardOneBackward;
  int micro_batches = 1;
  std::vector<int> devices = {};  // by stage: of stages that share ranks the same; numbered from 0
  int most_kept = 0;  // of `auto`: micro-batches that a device keeps at most; 0: as many as there
                      // are devices, as 1F1B's first
};

struct PipelineOrder {
  std::vector<int> order;  // indices into `work`
  std::vector<std::optional<PassKind>>
      passes;           // by piece: the pass that it is part of; none: it is done once a step
  PipelineShape shape;  // times are sums of `work`, a transfer a hundredth of a micro-batch's on
                        // the busiest device; a stage keeps one over the stages of its device
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
///   across   devices, pieces stand in the order of the virtual clock
///   throws   UserError (78) when the schedule does not fit the stages, or these need each other in
///   a circle
PipelineOrder pipeline_order(const std::vector<PipelineStep>& work, const PipelineOptions& options);

/// What the order is worth on the virtual clock, in times of a micro-batch on the busiest device,
/// as estimated: a line a device with the bubbles of its span (from its first pass to its last) and
/// of the whole step (all wait for the last one, as before the optimizer of a global clip) and the
/// micro-batches that it keeps; then the step, and what no order is better than.
///
///     device 0 (first): busy 4.00, bubble 12.0% of its span, 19.4% of the step, keeps 2
///     step 4.96, no order is below 4.50: device 1 is busy for 4, and 0.5 come before and after
std::string worth_text(const PipelineOrder& made, const std::vector<std::string>& stage_names);

}  // namespace tessera
