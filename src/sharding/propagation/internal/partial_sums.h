// Partial sums that pass through linear ops, so that they are reduced once and later.
#pragma once

#include "sharding/propagation/internal/propagation_state.h"

namespace tessera {

/// Lets ops make values that a mark, or the end of a region, has as sums over micro-batches as such
/// sums, where they are linear and so are the ops before them, back to those that make a part in
/// each micro-batch or zeros: these ops run in each micro-batch. Without such a mark a sum over
/// micro-batches is whole as soon as it is there, and the ops after it run once a step.
///   requires  the shardings of all ops are decided; before pass_partial_sums
void pass_sums_of_micro_batches(PropagationState& state);

/// Lets the op take partial sums as inputs and produce partial sums, on each axis on which that is
/// correct and communicates less: the op is linear in these inputs, each has no other use, and the
/// result has not more bytes. Where it has fewer, as of a cast to 16 bits, or adds several such
/// sums, the operands are not divided over the axis, and the result is reduced and divided in their
/// place.
///   requires  the shardings of all ops are decided; calls are in program order
void pass_partial_sums(PropagationState& state, OpId id);

}  // namespace tessera
