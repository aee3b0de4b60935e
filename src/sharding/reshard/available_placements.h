// A value that is available in several placements: from which of them exchanges make another one.
// The compiler and the problem of a search choose alike.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sharding/reshard/reshard_plans.h"

namespace tessera {

/// None is nullptr.
using AvailablePlacements = std::span<const DistAttr* const>;

/// May an exchange make `to` from `from`? Partial values stay on the mesh that computed them; a
/// window of `from` may leave out what `to` has; a whole tensor becomes partial only where a mark
/// on an op asks for it.
bool is_reshardable(const Shape& shape, const DistAttr& from, const DistAttr& to);

/// The place of the placement from which `wanted` takes least time, and of these sends the fewest
/// bytes; the first one that is equal to it, if there is one.
///   requires  each of `available` may become `wanted`; one at least
size_t cheapest_source(ReshardPlans& plans, const TensorType& type, AvailablePlacements available,
                       const DistAttr& wanted);

/// Of other placements that are needed soon, the one with which all of them take less time than
/// with `wanted` first: a whole tensor of which ops read parts. nullopt: there is none.
///   available    those that may become `wanted`
///   others  each once
std::optional<DistAttr> choose_intermediate(ReshardPlans& plans, const TensorType& type,
                                            AvailablePlacements available, const DistAttr& wanted,
                                            std::vector<DistAttr> others);

}  // namespace tessera
