// Gradients are exchanged in buckets while the backward goes on.
#pragma once

#include "compiler/lower/internal/program.h"
#include "compiler/plan/plan.h"

namespace tessera {

/// Moves exchanges that the optimizer needs, of gradients on the same mesh, from before the
/// optimizer into the backward: all those of a bucket to where its last gradient is computed. Of an
/// all-reduce in two steps the reduce-scatter is moved and the all-gather stays, so that between
/// them a rank holds its part of the gradient only.
///
///   requires  instructions in the order in which they will run, or a rolled program with such an
///             order
///   ensures   within a bucket the exchanges keep their order, which is the same on every rank;
///   each
///             comes after the instruction that it reads from; no exchange is moved that writes
///             more bytes than it reads, so no more memory is needed than before
///   bucket    its gradients together are at least as large, at the rank at the origin; what
///   remains
///             at the end of the backward stays where it was: small models keep one round at the
///             end
void exchange_in_buckets(Program& program, Bytes bucket = kGradientBucket);

}  // namespace tessera
