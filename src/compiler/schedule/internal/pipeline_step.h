// The work of a step, and the options of its pipeline schedule.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/schedule/named_orders.h"
#include "ir/graph/graph.h"

namespace tessera {

/// A piece of work in program order.
struct PipelineStep {
  int stage = 0;
  Role role = Role::kForward;
  int micro_batch = -1;    // -1: once per step
  std::vector<int> needs;  // indices of earlier pieces
  /// Its duration in a unit of the caller's choice, which `auto` and the order across devices use.
  double work = 0;
};

struct PipelineOptions {
  PipelineKind kind = PipelineKind::kOneForwardOneBackward;
  int micro_batches = 1;
  /// By stage, numbered from 0; stages that share ranks have the same device.
  std::vector<int> devices = {};
  /// For `auto`: the largest number of micro-batches in flight on a device; 0: the number of
  /// devices, as on the first stage under 1F1B.
  int max_in_flight = 0;
  /// The time from the end of a pass to the start of a pass on another device that needs it, as a
  /// part of the time of a micro-batch on the busiest device.
  double transfer = 0.01;
  /// For errors: the names of the stages, and of what a piece makes; empty: none.
  std::vector<std::string> stage_names = {};
  std::function<std::string(int piece)> name_of_result = {};
};

}  // namespace tessera
