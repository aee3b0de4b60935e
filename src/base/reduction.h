// How sums go between the members of a run.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

enum class Reduction : uint8_t {
  kOrdered,  // in the order that was compiled: the same bits whatever the transport
  kFast,     // exchanges that are all-reduces, reduce-scatters and all-gathers of the transport are
             // left to it, and with them the order
};
constexpr std::string_view to_text(Reduction reduction) {
  return reduction == Reduction::kFast ? "fast" : "ordered";
}

}  // namespace tessera
