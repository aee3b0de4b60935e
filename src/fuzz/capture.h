// What every rank held in every register, put together to whole tensors.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ops/operator.h"
#include "runtime/runtime.h"

namespace tessera::fuzz {

class Capture {
 public:
  /// `graph` outlives it.
  explicit Capture(const TaskGraph& graph);

  /// To be given to Runtime::run; each rank writes its own part.
  Observer observer();
  void clear();

  struct Whole {
    ReferenceTensor tensor;  // addends of a partial one are put together
    std::vector<bool> held;  // by element: does a process hold it? windows may leave some out
    struct Copy {
      size_t at = 0;
      double value = 0;
    };
    /// Elements that windows give to a further process, where it has another value: computed anew, so rounded anew.
    std::vector<Copy> copies;
    double magnitude = 0;  // the largest sum of absolute addends of an element, or element
    std::string torn;      // two replicas that differ: "processes 0 and 2 differ in local element 3"; "" when none do
    std::string missing;   // a process that never filled it
  };
  Whole assemble(RegisterIndex index) const;

 private:
  struct Part {
    Coordinate coordinate;
    std::vector<std::vector<int64_t>> indices;  // by dim, of the whole
    int64_t place = 0;                          // index over the axes that divide or are partial: equal for replicas
    int64_t addend = 0;                         // index over those that are partial
  };
  static Part part_of(const Register& reg, int process);

  size_t index_of(Rank rank) const;

  const TaskGraph& graph_;
  std::vector<Rank> processes_;
  std::vector<std::vector<std::vector<std::byte>>> parts_;  // by process and register
  std::vector<std::vector<bool>> filled_;
};

}  // namespace tessera::fuzz
