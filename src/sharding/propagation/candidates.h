// Candidates for the sharding of a factor, and the checks of an op: whether a factor may be divided
// in chunks or by micro-batches, and which factor of a dim is divided.
#pragma once

#include <vector>

#include "ir/ops/operator.h"
#include "sharding/propagation/op_sharding.h"

namespace tessera {

using Axes = std::vector<int>;

/// The axes with which one operand divides a factor of an op.
struct ShardingCandidate {
  Axes axes;
  int64_t chunks;     // chunks of the factor
  bool in_one_piece;  // for an unmarked input or variable, which never has chunks
  int operand;        // index; inputs first, then outputs
  bool is_input;
  bool fixed;  // is it fixed by a mark?
  int64_t bytes;
};

/// Does candidate `a` have priority over `b`? Inputs have priority over outputs (an output can be
/// resharded by its producer), marked tensors over others, larger tensors over smaller ones.
bool has_priority(const ShardingCandidate& a, const ShardingCandidate& b);

bool is_prefix(const Axes& shorter, const Axes& longer);

/// Is `axis` of the mesh the axis of the micro-batches?
bool is_time(const Mesh& mesh, int axis);

/// Divides a factor that has axes in chunks, unless its kernel must know where its part begins: a
/// part in chunks begins at several positions. Ops with regions and factors that micro-batches
/// divide stay in one piece, since kernels inside may have to know it.
void take_chunks(const OpView& op, const ShardingRule& rule, int factor, int64_t chunks,
                 OpSharding& sharding);

/// May `count` micro-batches divide the factor? They may when they are equal parts of one piece and
/// do not overlap. Ops whose factors cannot be divided so run once per step.
bool may_divide_by_micro_batches(const ShardingRule& rule, int factor, int64_t count);

/// The factor of a dim that has axes; -1 when none has.
int divided_factor(const DimFactor& dim, const OpSharding& sharding);

bool share_a_factor(const DimFactor& a, const DimFactor& b);

}  // namespace tessera
