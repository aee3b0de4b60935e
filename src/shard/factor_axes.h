// What an operand wishes for a factor, and what may become of it when it gets axes: whether it may
// be divided in chunks, by time, and which of a dim's factors is divided.
#pragma once

#include "ops/operator.h"
#include "shard/op_sharding.h"

namespace tessera {

using Axes = std::vector<int>;

/// One operand's wish for a factor.
struct Wish {
  Axes axes;
  int64_t chunks;     // of the factor
  bool in_one_piece;  // it is an unmarked input or variable, which never lies in chunks
  int operand;        // inputs first, then outputs
  bool is_input;
  bool fixed;
  int64_t bytes;
};

/// Inputs before outputs (an output can be resharded where it is made), marks before what was
/// derived, larger tensors before smaller ones.
bool stronger(const Wish& a, const Wish& b);

/// Divides a factor that has axes in chunks, unless its kernel has to know where its part begins:
/// such a part begins at several places. Ops with regions take one piece: what runs inside may have
/// to know; so does what micro-batches divide.
void take_chunks(const OpView& op, const ShardingRule& rule, int factor, int64_t chunks,
                 OpSharding& sharding);

/// Micro-batches are equal parts of one piece that do not overlap; what cannot be cut into `count`
/// of them is taken once a step.
bool may_be_cut_in_time(const ShardingRule& rule, int factor, int64_t count);

/// The factor of a dim that has axes, or -1.
int divided_factor(const DimFactor& dim, const OpSharding& sharding);

bool share_a_factor(const DimFactor& a, const DimFactor& b);

}  // namespace tessera
