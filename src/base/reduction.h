// How sums of several processes are computed.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

enum class Reduction : uint8_t {
  kOrdered,  // in the compiled order: the same bits over every transport
  kFast,     // all-reduces, reduce-scatters and all-gathers by the library of the transport, which
             // chooses the order
};
constexpr std::string_view to_text(Reduction reduction) {
  return reduction == Reduction::kFast ? "fast" : "ordered";
}

}  // namespace tessera
