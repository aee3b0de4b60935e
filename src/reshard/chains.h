// Chains of collectives over one mesh axis each, from one placement to another on one mesh.
#pragma once

#include <optional>
#include <vector>

#include "reshard/reshard.h"

namespace tessera {

/// Axes on which `from` has addends and `to` has none.
std::vector<PartialAxis> resolved_axes(const DistAttr& from, const DistAttr& to);
/// Axes on which `to` has addends and `from` has none.
std::vector<PartialAxis> started_axes(const DistAttr& from, const DistAttr& to);
bool on_one_mesh(const DistAttr& a, const DistAttr& b);

/// The cheapest chain of slices, all-gathers, all-to-alls and permutes; none when there is none, or
/// when the two cut a dim in other units or by windows.
///
///   requires  on_one_mesh; no Partial is resolved or started
///   ensures   no placement on the way holds more on a rank than the larger of both ends
///   time      shortest path over the placements of the mesh's axes: at most a few thousand
std::optional<std::vector<Exchange>> find_chain(const TensorType& type, const DistAttr& from,
                                                const DistAttr& to, const ReshardOptions& options);

}  // namespace tessera
