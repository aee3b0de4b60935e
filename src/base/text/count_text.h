// Counts as text for readers.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// The number with separators: "1,234,567".
std::string grouped(int64_t number);

/// A count with its noun: counted(1, "rank") = "1 rank", counted(4, "rank") = "4 ranks",
/// counted(8, "batch") = "8 batches", counted(2, "process") = "2 processes".
std::string counted(int64_t number, const std::string& noun);

}  // namespace tessera
