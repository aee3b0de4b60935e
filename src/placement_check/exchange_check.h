// Does an exchange bring together what its placements say? OpRule from the boxes of both ends,
// whoever found the pulls.
#pragma once

#include <span>

#include "reshard/reshard.h"

namespace tessera {

/// Of a small mesh every coordinate; of a larger one its corners and a spread sample: their number
/// does not grow with the mesh.
std::vector<Coordinate> sampled_coordinates(const Mesh& mesh);

/// What `exchange` may do at all: addends keep their reduction, do not change their mesh, and are
/// all of one reduction.
///   throws  InternalError
void check_ends(const Exchange& exchange);

/// What `receiver` pulls of a tensor of this shape.
///
///   requires  check_ends(exchange) holds
///   ensures   each sender holds what is pulled from it; every element that the receiver wants
///   comes exactly once from each coordinate
///             of the resolved partial axes, its first contribution marked as such, the others
///             reduced as the axes say; addends over axes that stay partial come from the
///             receiver's own coordinate; who starts a new Partial at a coordinate other than 0
///             pulls nothing
///   throws    InternalError that names the receiver and the box
void check_pulls(const Shape& shape, const Exchange& exchange, Rank receiver,
                 std::span<const Pull> pulls);

}  // namespace tessera
