// The names of files of data, as configurations and commands have them: "a.npy", "a.idx.gz", and
// "a.npz:images" for a member of an archive.
#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// The ending that says the format, without a member and without ".gz": ".idx" of "a.idx.gz",
/// ".npz" of "a.npz:images".
std::string stored_ending(const std::filesystem::path& name);
/// Does the name say that the file has arrays of NumPy, .npy or .npz?
bool is_npy(const std::filesystem::path& name);

/// The bytes of a .npy file: of the file itself, which may be compressed by gzip, or of a member of
/// a .npz. "a.npz:images" is its member images.npy; an archive of a single array needs no name.
///   throws  UserError: 66 when the file cannot be read; 65 when it is damaged, lacks the member
///           (with the nearest one), or has several and none is named
std::string read_npy_bytes(const std::filesystem::path& name);

}  // namespace tessera
