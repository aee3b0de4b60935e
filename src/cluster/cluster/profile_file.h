// Files of runtime profiles: docs/costs.md.
#pragma once

#include <filesystem>
#include <string>

#include "base/files/config_table.h"
#include "base/files/document.h"
#include "cluster/cluster/runtime_profile.h"

namespace tessera {

/// The keys of a profile. `profile` names the one that gives what is left out. The caller finishes
/// the table.
RuntimeProfile read_profile(ConfigTable& table);
/// Every key.
Document to_document(const RuntimeProfile& profile);

/// A name of runtime_profiles(), or a file with the keys of read_profile.
///   throws  UserError: 66 for what is neither, 78 for a malformed file
RuntimeProfile profile_called(const std::string& name_or_file);
void write_profile(const std::filesystem::path& file, const RuntimeProfile& profile);

}  // namespace tessera
