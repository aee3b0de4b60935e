#include "runtime/executor/internal/record/recorder.h"

namespace tessera {

/// Touches the pages here, so that no step has page faults.
Recorder::Recorder(size_t capacity) : spans_(capacity), sent_(capacity), arrived_(capacity) {
  spans_.clear();
  sent_.clear();
  arrived_.clear();
}

}  // namespace tessera
