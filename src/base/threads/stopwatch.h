// Wall-clock time of a part of the program.
#pragma once

#include <chrono>

#include "base/units.h"

namespace tessera {

class Stopwatch {
 public:
  /// The time since construction.
  Seconds elapsed() const {
    return Seconds(std::chrono::duration<double>(Clock::now() - start_).count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace tessera
