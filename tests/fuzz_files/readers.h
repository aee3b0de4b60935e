// The readers of files that users give: each as a function of bytes, for fuzzing.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tessera {

struct Reader {
  std::string_view name;
  /// Reads a file with these bytes and throws away what it holds.
  ///   throws  UserError for bytes that it refuses; anything else is a defect
  void (*read)(std::span<const std::byte> bytes);
};

std::span<const Reader> readers();
/// nullptr when there is no such reader.
const Reader* find_reader(std::string_view name);

/// Reads bytes that may be anything. A UserError with a text for each of its three parts is a
/// correct answer.
///   throws  what another defect throws
void read_anything(const Reader& reader, std::span<const std::byte> bytes);

}  // namespace tessera
