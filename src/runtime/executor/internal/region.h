// A region of a While or an If, in the view of the step that runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/memory/run_types.h"

namespace tessera {

/// A value that a While carries from one iteration to the next.
struct CarriedValue {
  int64_t bytes = 0;
  /// Set for a sum over the iterations when another rank, or an earlier micro-batch, begins with
  /// the operand. Then this rank begins with zeros.
  bool begins_as_zero = false;
};

/// A region of a While or an If as one rank runs it.
class Region {
 public:
  virtual ~Region() = default;
  /// Places variable `index` at `memory` in the following runs.
  virtual void lend(int index, std::byte* memory) = 0;
  /// Runs it once.  throws  RunStopped
  virtual void run_region(const StepCall& call) = 0;
  /// Waits until no other rank reads the results of the last runs.  throws  RunStopped
  virtual void wait_until_released() = 0;
  /// The op of the running kernel, in the innermost region; "" when none runs.
  virtual std::string running_op() const = 0;
};

}  // namespace tessera
