// The names of files of data, as configurations and commands have them.
#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// The ending that says the format: ".idx" of "a.idx".
std::string stored_ending(const std::filesystem::path& name);
/// Does the name say that the file has an array of NumPy?
bool is_npy(const std::filesystem::path& name);

}  // namespace tessera
