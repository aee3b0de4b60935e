// Reading and writing whole files, with errors that name them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

/// throws  UserError (missing input, 66) when the file cannot be read
std::string read_file(const std::filesystem::path& path);

/// Writes beside the file and renames, so that readers see the old or the new text and nothing
/// between. throws  UserError (failure, 1) when it cannot be written
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace tessera
