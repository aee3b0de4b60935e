// Zero-bubble and V schedules from one building block: the times at which the passes of a single
// micro-batch begin on each device. The block is repeated for every micro-batch, then compressed.
// The span from F to W on a device, in periods of the repetition, is the number of micro-batches in
// flight on the device.
#pragma once

#include <vector>

#include "compiler/schedule/internal/passes.h"

namespace tessera {

/// The pace of one micro-batch through the stages: the slots from one device to the next, forward
/// and backward, on the way out and (in a V) on the way back. A slot is the time of any pass.
/// Larger steps keep more micro-batches in flight and have a smaller bubble.
struct BuildingBlock {
  std::vector<int> forward_step = {};   // by round: [0] the first stages of the devices,
  std::vector<int> backward_step = {};  // [1] the second ones
  int limit = 1;                        // of micro-batches in flight on a device, by stage

  int rounds() const { return static_cast<int>(forward_step.size()); }
};

/// Orders of `micro_batches` through the stages 0, 1, ... of chain_of(devices, rounds, V or round
/// robin with one round, ...).
///
///   repeats     the block every 3 slots per round: F, B and W of each. At the turns of the V and
///               at the loss it waits so that no two passes of a device fall on one slot of the
///               period. Of all waits of less than a period at each turn, it takes those that
///               compress best
///   compresses  slot by slot: a device executes the first ready pass of the repeated block, or a
///               W. A forward moves to an earlier slot only where all remaining passes still fit
///               the limit in the order of the block. A device that is at its limit executes a W
///               when a forward is next, or already before that, whichever shortens the longest
///               span of a device
///   source      Qi et al., Pipeline parallelism with controllable memory (arXiv 2405.15362); the
///               safety of early forwards as in the banker's algorithm (Dijkstra, EWD 623)
///   time        O(passes x devices)
DeviceOrders repeat_block(const BuildingBlock& block, int devices, int micro_batches);

}  // namespace tessera
