// The checksum of everything that a checkpoint stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// The CRC-32C (Castagnoli) of `bytes`, continuing from the checksum `before` of the bytes before
/// them.
///
///   finds    every single flipped bit and every burst of up to 32 bits
///   example  crc32c("123456789") = 0xe3069283
///   source   RFC 3720, appendix B.4
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
uint32_t crc32c(std::string_view text, uint32_t before = 0);

/// The same by tables alone, eight bytes at a time. crc32c() uses it on machines without the
/// instruction, and tests compare the two.
uint32_t crc32c_by_tables(std::span<const std::byte> bytes, uint32_t before = 0);

/// The contribution of `bytes` to the checksum of a longer text, in which `bytes_behind` more bytes
/// follow. It does not depend on the other bytes.
///   source  a CRC is linear: the checksum of a text is the exclusive or of the contributions of
///           its pieces and of a constant of its length (crc32_combine of zlib)
uint32_t crc32c_share(std::span<const std::byte> bytes, int64_t bytes_after);
/// The checksum of a text of `size` bytes, from the exclusive or of the shares of pieces that tile
/// it.
uint32_t crc32c_of_shares(uint32_t shares, int64_t size);

/// Eight hexadecimal digits: "e3069283".
std::string checksum_text(uint32_t checksum);

}  // namespace tessera
