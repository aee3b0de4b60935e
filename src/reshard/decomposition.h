// Ways from one placement to another by way of placements in between, beside the direct one and the
// chains of chains.h.
#pragma once

#include <optional>
#include <vector>

#include "reshard/reshard.h"

namespace tessera {

using Way = std::vector<Exchange>;

/// Reduce-scatter over the axes that `to` leaves unused, then all-gather. None when no dim is long
/// enough.
std::optional<Way> through_scattered_sums(const TensorType& type, const DistAttr& from,
                                          const DistAttr& to);

/// Reduce-scatters over one axis each, the innermost first, and all-gathers back where `to` is not
/// divided. None when fewer than two axes are resolved, when some of them divide `to` and some do
/// not, or when no dim is long enough.
std::optional<Way> through_sums_by_axis(const TensorType& type, const DistAttr& from,
                                        const DistAttr& to);

/// Onto another mesh: each piece travels once, and the copies are made there.
std::optional<Way> through_one_copy(const TensorType& type, const DistAttr& from,
                                    const DistAttr& to);

}  // namespace tessera
