// Reads the meshes of a plan file.
#pragma once

#include <optional>
#include <string>

#include "base/config_table.h"
#include "base/document.h"
#include "plan/plan.h"

namespace tessera {

/// The key "device"; the host when it is absent.
DeviceKind read_device(ConfigTable& table);

/// Sets the meshes of `plan`.
///   one, several  the keys "mesh" and "meshes"; nullptr when absent
///   ranks         of the run when it is known, for an axis of the size kRest
///   throws        UserError (78) as read_plan
void read_meshes(const Document* one, const Document* several, const std::string& origin,
                 std::optional<int> ranks, Plan& plan);

}  // namespace tessera
