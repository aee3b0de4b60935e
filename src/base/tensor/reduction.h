// The order in which partial values of several ranks are summed.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

enum class Reduction : uint8_t {
  /// In the compiled order: every transport gives the same bits.
  kOrdered,
  /// The transport performs all-reduces, reduce-scatters and all-gathers, in an order of its own.
  kFast,
};
constexpr std::string_view to_text(Reduction reduction) {
  return reduction == Reduction::kFast ? "fast" : "ordered";
}

}  // namespace tessera
