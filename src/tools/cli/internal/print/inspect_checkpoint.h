// The output of tessera inspect for stored tensors.
#pragma once

#include <filesystem>
#include <string>

#include "base/files/document.h"

namespace tessera {

/// Is it a safetensors file, a checkpoint, a folder of checkpoints, or a run folder with
/// checkpoints?
bool is_stored(const std::filesystem::path& path);
/// The summary of training/checkpoint/checkpoint.h.  throws  UserError (65) when it is damaged
Document stored_document(const std::filesystem::path& path);
/// The same as text for readers.
///   run  lines about its run (tools/cli/internal/print/inspect_run.h)
std::string stored_text(const std::filesystem::path& path, const Document& summary,
                        const std::string& run = "");

}  // namespace tessera
