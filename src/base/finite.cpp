#include "base/finite.h"

#include <cstdint>
#include <cstring>

namespace tessera {

bool all_finite(DType dtype, std::span<const std::byte> data) {
  if (dtype != DType::kF32) return true;
  constexpr uint32_t kExponent = 0x7f800000;  // all of its bits are set in no finite number
  bool any_other = false;
  for (size_t at = 0; at + sizeof(uint32_t) <= data.size(); at += sizeof(uint32_t)) {
    uint32_t bits = 0;
    std::memcpy(&bits, data.data() + at, sizeof bits);
    any_other |= (bits & kExponent) == kExponent;
  }
  return !any_other;
}

}  // namespace tessera
