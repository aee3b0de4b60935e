// Decompression: files of gzip, and the compressed members of ZIP archives (base/files/zip.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

/// What a file may decompress to at most: a small one may hold any number of zeros.
inline constexpr int64_t kMaxInflatedBytes = int64_t{1} << 30;

/// Do the bytes begin as those of gzip?
bool is_gzip(std::string_view bytes);

/// The content of a gzip file, which is a sequence of one or more compressed streams.
///   name    of the file, for messages
///   throws  UserError (65) when it is damaged or cut off, something follows the last stream, or it
///           decompresses to more than `limit` bytes
///   source  RFC 1952
std::string gunzip(std::string_view bytes, const std::string& name,
                   int64_t limit = kMaxInflatedBytes);

/// The content of a deflate stream without a header (RFC 1951).
///   throws  UserError (65) when it is damaged, does not end with its last byte, or has more than
///           `limit` bytes
std::string inflate_raw(std::string_view bytes, const std::string& name,
                        int64_t limit = kMaxInflatedBytes);

/// The bytes of a file, decompressed when they begin as those of gzip.
///   throws  as read_file and gunzip
std::string read_inflated(const std::filesystem::path& path);

}  // namespace tessera
