// The schedule `auto`: orders for any stages, with uneven times and memory limits.
#pragma once

#include <string>

#include "compiler/schedule/internal/local_search.h"
#include "compiler/schedule/internal/lower_bound.h"

namespace tessera {

struct AutoOrders {
  DeviceOrders orders;  // F, B and W
  double time = 0;      // value of the goal on the clock
  PipelineBound bound;  // a bound that no order improves
  std::string from;     // the origin of the order: "zb-h2", "list"
};

struct AutoOptions {
  PipelineGoal goal = PipelineGoal::kStep;
  int64_t work = 20'000'000;  // limit of the local search, as LocalSearchOptions::work
};

/// The best of the named schedules that fit the stages and the memory, of the list scheduler under
/// each of its rules, and of the zero-bubble heuristic, improved by local search.
///
///   ensures  first_fault is empty; no named schedule that fits is better
///   throws   UserError: 3 when one micro-batch does not fit the memory, with the missing amount;
///            78 when stages wait for each other in a cycle
///   source   the heuristic: Qi et al., Zero bubble pipeline parallelism (arXiv 2401.10241),
///            section 3
AutoOrders auto_orders(const PipelineShape& shape, const AutoOptions& options = {});

}  // namespace tessera
