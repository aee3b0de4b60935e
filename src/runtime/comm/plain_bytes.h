// Plain values and texts as bytes of messages between processes, which all run the same program on
// the same kind of machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace tessera {

/// The value as the bytes of a message.
template <typename Plain>
  requires std::is_trivially_copyable_v<Plain>
std::span<const std::byte> bytes_of_plain(const Plain& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename Plain>
  requires std::is_trivially_copyable_v<Plain>
void put(std::vector<std::byte>& bytes, const Plain& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

inline void put_text(std::vector<std::byte>& bytes, std::string_view text) {
  put(bytes, static_cast<uint32_t>(text.size()));
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  bytes.insert(bytes.end(), begin, begin + text.size());
}

/// Reads values and texts in the order in which they were written.
///   throws  InternalError when there are too few bytes
class PlainReader {
 public:
  explicit PlainReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Plain>
    requires std::is_trivially_copyable_v<Plain>
  Plain value() {
    Plain value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto bytes = take(value<uint32_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::span<const std::byte> bytes(size_t count) { return take(count); }
  bool is_at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> take(size_t count) {
    ensure(count <= bytes_.size(), "a message of a process is complete");
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  std::span<const std::byte> bytes_;
};

}  // namespace tessera
