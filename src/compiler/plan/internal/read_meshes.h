// Reads the meshes of a plan file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/config_table.h"
#include "base/files/document.h"
#include "sharding/propagation/mesh_assignment.h"

namespace tessera {

/// In place of the size of an axis: what the number of ranks, divided by all others, gives.
inline constexpr std::string_view kRest = "rest";

/// The ranks of a mesh at most. They are listed before anything else is known of them.
inline constexpr int64_t kMaxMeshRanks = 65536;

/// The key "device"; the host when it is absent.
DeviceKind read_device(ConfigTable& table);

/// The key "hardware"; "" when it is absent.
std::string read_hardware(ConfigTable& table);

/// The ranks of all meshes, in ascending order.
std::vector<Rank> ranks_of(const Meshes& meshes);

/// The meshes of a plan; empty when both keys are absent or the mesh has no axes.
///   plan    the table with the keys "mesh" and "meshes"
///   ranks   of the run when it is known, for an axis of the size kRest
///   throws  UserError (78) as read_plan
Meshes read_meshes(ConfigTable& plan, std::optional<int> ranks);

}  // namespace tessera
