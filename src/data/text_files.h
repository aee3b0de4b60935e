// Files and folders as one text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

/// All the text of files and folders, in a fixed order, up to `max_bytes`. The rest is cut off, and
/// so is a UTF-8 character that the cut would divide.
///
///   order   by path, folder by folder and recursively; a file that is named twice is read once
///   skips   files that are not text (a zero byte in the first 4096)
///   throws  UserError: 66 when a path is missing or cannot be read, 65 when no file has text
std::string read_text(const std::vector<std::filesystem::path>& paths, int64_t max_bytes);

}  // namespace tessera
