// Gradients travel while the backward goes on.
#pragma once

#include "lower/program.h"

namespace tessera {

/// What PyTorch's data parallelism takes, too.
constexpr Bytes kGradientBucket{25 << 20};

/// Moves exchanges that the optimizer asked for, of what the backward made on the same mesh, from
/// before the optimizer into the backward: all those of a bucket to where its last gradient is
/// made. Of an all-reduce in two steps the reduce-scatter is moved and the all-gather stays behind,
/// so that between them a rank holds its share of a gradient only.
///
///   requires  instructions in the order in which they will run
///   ensures   the order of the exchanges among each other is kept within a bucket, and is the same
///   on every rank; each still comes after
///             what it reads; nothing that is moved makes more bytes than it reads, so no more
///             memory is needed than before
///   bucket    its gradients together are at least as large, at the rank at the origin; what is
///   left over at the end of the backward
///             stays where it was: small models keep one round at the end
void exchange_in_buckets(Program& program, Bytes bucket = kGradientBucket);

}  // namespace tessera
