// When the registers of a program are alive: the one analysis for the arena, for passes that move
// instructions, and for searches that ask for the memory of a step.
#pragma once

#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/program.h"

namespace tessera {

/// By register: the first and the last instant at which it is alive. Instants are the instances
/// counted from 1; 0 is before the first one, and one more than the last is after it.
struct LiveRanges {
  IndexedVector<RegisterIndex, int> begin, end;  // -1: never
  /// Another rank or another stream uses it too: an exchange reads it, or a copy reads or fills it.
  IndexedVector<RegisterIndex, bool> is_shared;
  /// A copy reads or fills it, beside the order list: no other register uses its bytes.
  IndexedVector<RegisterIndex, bool> is_copied;
};

/// Inputs live from before the first instance, those of one micro-batch from their first reader;
/// results live until after the last instance. What an exchange receives lives from where it may be
/// issued.
///   time  O(instances)
LiveRanges find_live_ranges(const Program& program, const InstanceUses& uses);

/// Is the register, which the kernel at `time` reads, of the type and the placement of its first
/// result, and may the kernel write this one over it? It may have later readers.
bool may_hold_result(const Program& program, const InstanceUses& uses, Time time,
                     RegisterIndex operand);

}  // namespace tessera
