#include "base/internal/text/printable.h"

#include <cstdint>

namespace tessera {

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    // U+0080 to U+009f are control characters too: c2 80 to c2 9f.
    const bool is_late_control = byte >= 0x80 && byte < 0xa0 && at > 0 && text[at - 1] == '\xc2';
    if (byte == '\n' || byte == '\t' || (byte >= 0x20 && byte != 0x7f && !is_late_control))
      result += text[at];
    else
      result.append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
  }
  return result;
}

}  // namespace tessera
