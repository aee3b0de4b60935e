// What tessera inspect says of stored tensors.
#pragma once

#include <filesystem>
#include <string>

#include "base/document.h"

namespace tessera {

/// Is it a safetensors file, a checkpoint, a folder of checkpoints, or the folder of a run that has
/// some?
bool is_stored(const std::filesystem::path& path);
/// The summary of checkpoint/checkpoint.h.  throws  UserError when it is damaged (65)
Document stored_document(const std::filesystem::path& path);
/// The same for people.
std::string stored_text(const std::filesystem::path& path, const Document& summary);

}  // namespace tessera
