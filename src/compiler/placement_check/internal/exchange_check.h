// The check of one exchange: whether its recv regions bring together what its placements say. It
// derives the answer from the boxes of both ends, independently of how the recv regions were found.
#pragma once

#include <span>

#include "base/tensor/split.h"
#include "base/units.h"
#include "sharding/reshard/exchange.h"
#include "sharding/reshard/recv_regions.h"

namespace tessera {

/// Checks the two ends of an exchange: partial values keep their reduction, stay on their mesh, and
/// have one reduction.
///   throws  InternalError
void check_ends(const Exchange& exchange);

/// Checks what `receiver` receives of a tensor of this shape.
///
///   requires  check_ends(exchange) holds
///   ensures   each sender holds what is received from it;
///             every element that the receiver wants comes exactly once from each coordinate of the
///             resolved partial axes, its first contribution marked as such, the others reduced as
///             the axes say;
///             partial values over axes that stay partial come from the receiver's own coordinate;
///             a rank whose coordinate on an axis that becomes partial is not 0 receives
///             nothing
///   throws    InternalError that names the receiver and the box
void check_recv_regions(const Shape& shape, const Exchange& exchange, Rank receiver,
                        std::span<const RecvRegion> recv_regions);

}  // namespace tessera
