// One step of the ranks of a task graph on the simulated clock, with little memory.
//
// In a step every task acts once. When it begins, no register is filled and every slot is free, and
// so it is again when it ends. So between steps that a barrier divides nothing is remembered: each
// takes as long as the first one, to the nanosecond, where no act is delayed at random. Such a step
// needs no actors (task_graph/actors/simulated_run.h): of each act a count of what it waits for,
// and its times. step_run_test compares both.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/clock/internal/class_programs.h"
#include "simulator/clock/internal/rank_classes.h"

namespace tessera {

/// An act in [start, end), in nanoseconds from the begin of the step.
struct ActSpan {
  int64_t start = 0, end = 0;
};

/// What is simulated. All of it outlives the call.
struct StepRun {
  const TaskGraph& graph;
  const ExchangeLinks& links;
  const RankClasses& classes;
  const ClassActors& actors;
  const ClassPrograms& programs;
  const std::vector<const ActDemand*>& demands;  // by actor
  /// By class, > 0: of the fixed times and of the flows over cores.
  std::vector<double> factors;
};

/// By actor, its act in the step; messages take no time. Empty when no task can act any more before
/// all have acted.
///   time    as simulate_actors
///   memory  24 bytes an act, and 4 bytes a register that is written over, beside the graph
std::vector<ActSpan> run_step(const StepRun& run);

}  // namespace tessera
