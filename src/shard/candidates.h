// Candidates for the sharding of a factor, and what an op may make of them: whether a factor may be
// divided in chunks or by micro-batches, and which factor of a dim is divided.
#pragma once

#include <vector>

#include "ops/operator.h"
#include "shard/op_sharding.h"

namespace tessera {

using Axes = std::vector<int>;

/// The axes by which one operand divides a factor of an op.
struct ShardingCandidate {
  Axes axes;
  int64_t chunks;     // of the factor
  bool in_one_piece;  // it is an unmarked input or variable, which never has chunks
  int operand;        // inputs first, then outputs
  bool is_input;
  bool fixed;  // by a mark
  int64_t bytes;
};

/// Whether candidate `a` has priority over `b`: inputs before outputs (an output can be resharded
/// where it is made), marked tensors before others, larger tensors before smaller ones.
bool has_priority(const ShardingCandidate& a, const ShardingCandidate& b);

bool is_prefix(const Axes& shorter, const Axes& longer);

/// Whether an axis of the mesh is that of the micro-batches.
bool is_time(const Mesh& mesh, int axis);

/// Divides a factor that has axes in chunks, unless its kernel has to know where its part begins: a
/// part in chunks begins at several places. Ops with regions and factors that micro-batches divide
/// keep one piece, since kernels inside may have to know it.
void take_chunks(const OpView& op, const ShardingRule& rule, int factor, int64_t chunks,
                 OpSharding& sharding);

/// Whether `count` micro-batches may divide the factor: they are equal parts of one piece that do
/// not overlap. Ops whose factors cannot be divided so run once a step.
bool may_divide_by_micro_batches(const ShardingRule& rule, int factor, int64_t count);

/// The factor of a dim that has axes, or -1.
int divided_factor(const DimFactor& dim, const OpSharding& sharding);

bool share_a_factor(const DimFactor& a, const DimFactor& b);

}  // namespace tessera
