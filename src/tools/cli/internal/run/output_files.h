// The files that a command writes for its user.
#pragma once

#include <filesystem>
#include <string_view>

namespace tessera {

/// Checks, before the work of which the result is to be written, that it can be written and that
/// nothing is lost: no output replaces a file that the command reads, or goes into a checkpoint.
///   requires  the command has opened its inputs, as far as it opens them before the work
///   throws    UserError: 2 for an input or a checkpoint, 1 when it cannot be written
void check_output(const std::filesystem::path& path);
/// The same of a folder into which the command writes.
void check_output_folder(const std::filesystem::path& path);

/// check_output(), since inputs may have been opened meanwhile, and write_file().
void write_output(const std::filesystem::path& path, std::string_view text);

}  // namespace tessera
