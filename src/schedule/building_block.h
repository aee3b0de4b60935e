// Zero-bubble and V schedules from one building block: when the passes of a single micro-batch fall
// on each device, repeated for every micro-batch, then compressed. The span from F to W on a
// device, in periods of the repetition, is the number of micro-batches in flight on the device.
#pragma once

#include <vector>

#include "schedule/passes.h"

namespace tessera {

/// The pace of one micro-batch through the stages: slots from one device to the next, forward and
/// backward, on the way out and (in a V) on the way back. A slot is the time of any pass. The
/// larger the steps, the more is kept and the smaller the bubble.
struct BuildingBlock {
  std::vector<int> forward_step = {};   // by round: [0] the first stages of the devices,
  std::vector<int> backward_step = {};  // [1] the second ones
  int limit = 1;                        // of micro-batches in flight on a device, by stage

  int rounds() const { return static_cast<int>(forward_step.size()); }
};

/// Orders of `micro_batches` through the stages 0, 1, ... of chain_of(devices, rounds, V or round
/// robin with one round, ...).
///
///   repeats     the block every 3 slots a round: F, B and W of each. At the turns of the V and at
///   the
///               loss it waits so that no two passes of a device fall on one slot of the period. Of
///               all waits of less than a period at each turn, those are taken that compress best
///   compresses  slot by slot: a device executes the first ready pass of the repeated block, or a
///   W.
///               A forward is moved forward only where all that is left still fits the limit in the
///               order of the block. A device that is at its limit executes a W when a forward is
///               next, or already before that: whichever makes the longest span of a device shorter
///   source      Qi et al., Pipeline parallelism with controllable memory (arXiv 2405.15362); the
///               safety of early forwards as in the banker's algorithm (Dijkstra, EWD 623)
///   time      O(passes x devices)
DeviceOrders repeat_block(const BuildingBlock& block, int devices, int micro_batches);

}  // namespace tessera
