// The text of the sharding of an op, and of the canonical placement of a value, as an explicit plan
// has it.
#pragma once

#include <string>
#include <string_view>

#include "ir/ops/operator.h"
#include "sharding/layout/dist_attr.h"
#include "sharding/propagation/op_sharding.h"

namespace tessera {

/// The text of an op that every rank computes whole.
inline constexpr std::string_view kWholeOp = "whole";

/// The divided factors with their axes, then the partial sums that the op passes on:
///
///     m@mb@dp, k@tp              the product over rows and the inner dim
///     d1@tp/3                    three chunks, each divided by tp
///     d2@h~8(-1:+1)              with windows: the halo is computed
///     m@dp, {sum 0, 1: tp}       inputs 0 and 1 are partial sums over tp, and so are the results
///
/// A factor whose name another one has, too, is written with its index: d0#1.
std::string to_text(const ShardingRule& rule, const OpSharding& sharding);

/// The inverse. Where the mesh has no axis of micro-batches, that axis is left out.
///   throws  UserError (78) for malformed text; a factor, an axis or a set of inputs that is not
///           there (with those that are); an axis that is used twice; two factors of one dim; and
///           windows, chunks or micro-batches where the op does not allow them
OpSharding parse_op_sharding(std::string_view text, const OpView& op, const ShardingRule& rule,
                             const MeshPtr& mesh);

/// The inverse of to_text(attr) for a tensor of this shape, as above.
///   throws  UserError (78) as parse_dist_type, and for another number of dims
DistAttr parse_value_placement(std::string_view text, const Shape& shape, const MeshPtr& mesh);

}  // namespace tessera
