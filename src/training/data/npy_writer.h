// Writes the format of NumPy that read_npy (training/data/array_files.h) reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

/// What a .npy file of such an array has before its elements.
std::string npy_header(const std::vector<int64_t>& shape);

/// The bytes of a .npy file, version 1, of little-endian f4 in C order.
///   requires  as many values as the product of the extents of `shape`
///   source    numpy.lib.format, NEP 1
std::string npy_bytes(std::span<const float> values, const std::vector<int64_t>& shape);

}  // namespace tessera
