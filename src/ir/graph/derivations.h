// What Origin::derivation says of ops that passes look for.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace tessera {

/// Of an op of the backward that computes again what its source computes in the forward.
inline constexpr std::string_view kRecomputed = "recompute";

/// The name of such an op, and of its results, is that of its source with a suffix:
/// "ffn.up.dot.recompute", "attn.core.recompute:1".
inline std::string second_computation(const std::string& op) {
  return op + "." + std::string(kRecomputed);
}
/// The name of the source of such a name; another name as it is.
inline std::string first_computation(const std::string& name) {
  const std::string suffix = second_computation("");
  const size_t colon = std::min(name.find(':'), name.size());
  if (!std::string_view(name).substr(0, colon).ends_with(suffix)) return name;
  return name.substr(0, colon - suffix.size()) + name.substr(colon);
}

}  // namespace tessera
