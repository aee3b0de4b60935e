// The error of the check of placements.
#pragma once

#include <string>

#include "base/error.h"

namespace tessera {

/// throws  InternalError: "placements: `what`"
[[noreturn]] inline void refuse(const std::string& what) {
  throw InternalError("placements: " + what);
}

}  // namespace tessera
