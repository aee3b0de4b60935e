// Reads and writes whole files, with errors that name them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

/// What is read of a pipe at most: it may have no end.
inline constexpr int64_t kMaxPipeBytes = int64_t{1} << 30;

///   throws  UserError (66) when the file cannot be read, is a device, or is a pipe that gives more
///           than `pipe_limit` bytes
std::string read_file(const std::filesystem::path& path, int64_t pipe_limit = kMaxPipeBytes);

/// Writes another file and renames it, so that readers see either the old or the new text. The path
/// may be a symbolic link, whose target is then replaced. A device or a pipe is written in place. A
/// file keeps its permissions, and no other file is touched.
///   throws  UserError (1) when it cannot be written
void write_file(const std::filesystem::path& path, std::string_view text);

/// Checks that write_file can write `path`, before the work of which the result is to be written.
/// It leaves nothing behind, and a file at `path` as it is.
///   throws  UserError (1) as write_file
void check_can_write(const std::filesystem::path& path);

}  // namespace tessera
