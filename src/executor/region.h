// A region of a While or an If, as the step that runs it sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "executor/types.h"

namespace tessera {

/// A value that a While carries from one iteration to the next.
struct CarriedValue {
  int64_t bytes = 0;
  /// Set for a sum over the iterations when another rank, or an earlier micro-batch, begins with
  /// the operand: this rank begins with zeros.
  bool begins_as_zero = false;
};

/// A region of a While or an If as one rank runs it.
class Region {
 public:
  virtual ~Region() = default;
  /// Variable `index` is at `memory` in the runs that follow.
  virtual void lend(int index, std::byte* memory) = 0;
  /// One run.  throws  RunStopped
  virtual void run_region(const StepCall& call) = 0;
  /// Waits until no other rank reads what the last runs made.  throws  RunStopped
  virtual void wait_until_released() = 0;
  /// The op of the kernel that runs, in the innermost region; "" of none.
  virtual std::string running_op() const = 0;
};

}  // namespace tessera
