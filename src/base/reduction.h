// In which order partial values of several ranks are summed.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

enum class Reduction : uint8_t {
  kOrdered,  // in the compiled order: every transport gives the same bits
  kFast,     // the transport performs all-reduces, reduce-scatters and all-gathers, in an order of
             // its own
};
constexpr std::string_view to_text(Reduction reduction) {
  return reduction == Reduction::kFast ? "fast" : "ordered";
}

}  // namespace tessera
