// The machine for which plans are found when no cluster is given.
#pragma once

#include <filesystem>
#include <optional>

#include "cluster/cluster/description.h"

namespace tessera {

/// The file of the user's cache folder in which the measured rates of this machine are kept, under
/// its name in the network; nullopt without a cache folder.
std::optional<std::filesystem::path> kept_machine_file();

/// This machine as `tessera measure --keep` kept it; nullopt when it did not.
///   throws  UserError (78) for a file that is no cluster
std::optional<ClusterDescription> kept_machine();

/// The kept one, else what the operating system says, with the rates of a common machine.
ClusterDescription this_machine();

}  // namespace tessera
