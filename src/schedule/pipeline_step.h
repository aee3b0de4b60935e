// The work of a step as a pipeline schedule sees it, and what the schedule is asked for.
#pragma once

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
  int max_in_flight = 0;  // of `auto`: micro-batches in flight on a device at most; 0: as many as
                          // there are devices, like the first stage under 1F1B
};

}  // namespace tessera
