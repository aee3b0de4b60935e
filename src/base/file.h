// Reads and writes whole files, with errors that name them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

///   throws  UserError (66) when the file cannot be read
std::string read_file(const std::filesystem::path& path);

/// Writes another file and renames it, so that readers see either the old or the new text.
///   throws  UserError (1) when it cannot be written
void write_file(const std::filesystem::path& path, std::string_view text);

/// Checks that write_file can write `path`, before the work of which the result is to be written.
/// It leaves nothing behind, and a file at `path` as it is.
///   throws  UserError (1) as write_file
void check_writable(const std::filesystem::path& path);

}  // namespace tessera
