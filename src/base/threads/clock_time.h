// Converts Seconds to the clock with which threads wait.
#pragma once

#include <chrono>

#include "base/units.h"

namespace tessera {

inline std::chrono::steady_clock::duration clock_time(Seconds time) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(time.value()));
}

}  // namespace tessera
