// Decompositions of a reshard: sequences of exchanges through intermediate placements, beside the
// single exchange and the chains of reshard/chains.h.
#pragma once

#include <optional>
#include <vector>

#include "base/tensor.h"
#include "reshard/exchange.h"

namespace tessera {

/// Exchanges in order, each from the placement in which the one before it ends.
using ExchangeSequence = std::vector<Exchange>;

/// A reduce-scatter over the resolved axes that do not divide `to`, then an all-gather. None when
/// no dim is long enough.
std::optional<ExchangeSequence> via_reduce_scatter(const TensorType& type, const DistAttr& from,
                                                   const DistAttr& to);

/// Reduce-scatters over one axis each, the innermost first, then all-gathers back over the axes
/// that do not divide `to`. None when fewer than two axes are resolved, when only some of them
/// divide `to`, or when no dim is long enough.
std::optional<ExchangeSequence> via_axis_reduce_scatters(const TensorType& type,
                                                         const DistAttr& from, const DistAttr& to);

/// Onto another mesh: each part is sent once, and an all-gather there makes the copies. None when
/// `to` has no copies or no dim is long enough.
std::optional<ExchangeSequence> via_one_copy(const TensorType& type, const DistAttr& from,
                                             const DistAttr& to);

}  // namespace tessera
