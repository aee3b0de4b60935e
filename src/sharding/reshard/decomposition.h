// Decompositions of a reshard: sequences of exchanges through intermediate placements, beside the
// single exchange and the chains of sharding/reshard/internal/chains.h.
#pragma once

#include <optional>
#include <vector>

#include "base/tensor/tensor.h"
#include "sharding/reshard/exchange.h"

namespace tessera {

/// Exchanges in order, each from the placement in which the one before it ends.
using ExchangeSequence = std::vector<Exchange>;

/// A reduce-scatter over the resolved axes that do not divide `to`, then an all-gather. None when
/// no dim is long enough.
std::optional<ExchangeSequence> via_reduce_scatter(const TensorType& type, const DistAttr& from,
                                                   const DistAttr& to);

/// Where no resolved axis divides `to`: reduce-scatters over one axis each, then all-gathers back,
/// in every order of the axes, the innermost first. None when fewer than two axes are resolved or
/// no dim is long enough.
std::vector<ExchangeSequence> via_axis_reduce_scatters(const TensorType& type, const DistAttr& from,
                                                       const DistAttr& to);

/// Where each resolved axis divides `to`: reduce-scatters over one axis each, in every order in
/// which the outer axis of a dim comes first. None when fewer than two axes are resolved or one of
/// them does not divide `to`.
std::vector<ExchangeSequence> via_ordered_reduce_scatters(const TensorType& type,
                                                          const DistAttr& from, const DistAttr& to);

/// An all-gather of a dim that several axes divide, over the outermost of them first: what a rank
/// gets from it are pieces of the dim, which are in chunks until the inner axes are gathered. Over
/// the axes node and device each part enters a node once, and is copied inside of it. None where
/// another dim or a sum changes, an axis of the dim stays, or its parts are not equal.
std::optional<ExchangeSequence> via_outer_gathers(const TensorType& type, const DistAttr& from,
                                                  const DistAttr& to);

/// A reduce-scatter of a dim over several axes, over the innermost of them first: the way back.
/// Over the axes node and device each node sends one sum of its parts. None in the same cases.
std::optional<ExchangeSequence> via_inner_scatters(const TensorType& type, const DistAttr& from,
                                                   const DistAttr& to);

/// The placement after the reductions that come first: `from` with the sums done, each in parts
/// where `to` divides a dim by its axis, and in the parts of axes by which `to` divides a dim and
/// which `from` does not use. Where some sums end in parts and others do not, only the former are
/// done. None when that is an end, an end has windows or chunks, or partial sums start.
std::optional<DistAttr> reduced_first(const DistAttr& from, const DistAttr& to);

/// Placements between the reductions and other exchanges: `from` with the sums that `to` wants
/// whole, in parts of one of its dims, each evenly. None where `to` has the dims of `from`, where
/// reduced_first() has none, or where a sum ends in parts.
std::vector<DistAttr> reduced_in_parts(const Shape& shape, const DistAttr& from,
                                       const DistAttr& to);

/// Onto another mesh: each part is sent once, and an all-gather there makes the copies. None when
/// `to` has no copies or no dim is long enough.
std::optional<ExchangeSequence> via_one_copy(const TensorType& type, const DistAttr& from,
                                             const DistAttr& to);

}  // namespace tessera
