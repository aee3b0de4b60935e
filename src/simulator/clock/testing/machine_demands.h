// Demands on plain machines, for tests and benchmarks of the simulator: prices whose arithmetic is
// easy to follow, not those of real hardware.
#pragma once

#include "simulator/clock/demands.h"

namespace tessera {

/// Ranks in ascending order on machines of equal size, each of which has cores and a memory bus,
/// and a link to a switch in each direction.
struct TestMachines {
  int ranks_per_machine = 4;
  int cores = 3;                 // a rank uses at most one, so 4 ranks share 3
  int64_t bus = 8'000'000'000;   // bytes a second
  int64_t link = 1'000'000'000;  // bytes a second, of each direction
  /// A kernel takes half as long again on ranks with coordinate 0 on this axis of its mesh; -1: on
  /// none.
  int slow_axis = -1;
};

/// Demands for which tasks that do the same work are alike. Kernels have a launch of 500 ns and
/// core time that differs by kind of task; an exchange has a latency of 700 ns, and for each sender
/// a flow of the bytes that it sends: over the bus of its machine, or over both links between two
/// machines.
Demands machine_demands(const TaskGraph& graph, const TestMachines& machines);

}  // namespace tessera
