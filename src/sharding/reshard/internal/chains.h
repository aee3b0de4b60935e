// Chains of collectives over one mesh axis each, from one placement to another on one mesh.
#pragma once

#include <optional>
#include <vector>

#include "sharding/reshard/exchange.h"
#include "sharding/reshard/price.h"

namespace tessera {

/// The cheapest chain of slices, all-gathers, all-to-alls and permutes. None when no chain exists,
/// and when the two ends divide a dim in different units, by windows or in chunks.
///
///   requires  on_one_mesh(from, to); no partial axis is resolved or started
///   ensures   no intermediate placement holds more on a rank than the larger of both ends
///   time      a shortest path over the placements on the axes of the mesh: at most a few thousand
std::optional<std::vector<Exchange>> find_chain(const TensorType& type, const DistAttr& from,
                                                const DistAttr& to, const ReshardOptions& options);

}  // namespace tessera
