// The passes of a micro-batch through a stage of a pipeline.
#pragma once

#include <string_view>

namespace tessera {

enum class PassKind {
  kForward,         // F: keeps what the backward will need
  kInputGradient,   // B: the part of the backward that earlier stages wait for
  kWeightGradient,  // W: the rest of it, which no other stage waits for
  kBackward,        // BW: both, B first, in one piece
};
inline constexpr int kPassKinds = 4;
std::string_view to_text(PassKind kind);  // "F", "B", "W", "BW"

}  // namespace tessera
