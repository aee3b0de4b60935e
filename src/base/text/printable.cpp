#include "base/text/printable.h"

#include <cstdint>

namespace tessera {

namespace {

constexpr char kHex[] = "0123456789abcdef";

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    // U+0080 to U+009f are control characters too: c2 80 to c2 9f.
    const bool is_late_control = byte >= 0x80 && byte < 0xa0 && at > 0 && text[at - 1] == '\xc2';
    if (byte == '\n' || byte == '\t' || (byte >= 0x20 && byte != 0x7f && !is_late_control))
      result += text[at];
    else {
      if (is_late_control) result.pop_back();
      result.append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return result;
}

std::string printable_json(std::string text) {
  for (size_t at = 0; (at = text.find_first_of("\x7f\xc2", at)) != std::string::npos;) {
    const bool is_pair = text[at] == '\xc2';
    const auto byte = static_cast<uint8_t>(text[is_pair && at + 1 < text.size() ? at + 1 : at]);
    if (byte < 0x7f || byte >= 0xa0) {
      ++at;
      continue;
    }
    text.replace(at, is_pair ? 2 : 1, {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]});
    at += 6;
  }
  return text;
}

}  // namespace tessera
