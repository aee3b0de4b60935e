// The zero-bubble heuristic for a chain of stages with uneven times.
#pragma once

#include <optional>

#include "schedule/passes.h"

namespace tessera {

struct ZeroBubbleRule {
  bool overshoot =
      true;  // the last forward before the first backward may end after that could have begun
  bool restrained =
      false;  // a stage leaves out a forward that the next one could not take before its backward
  bool greedy = true;  // a W that does not fit its gap is put there where that costs no more than
                       // the fullest device lost so far
};

/// Round by round: as many forwards ahead as memory and the arrival of the first backward allow, no
/// stage more than the one before it; then each round one forward and one backward of every stage,
/// with W in the gaps before them and where memory wants it; the rest of W last.
///
///   requires  find_chain(shape) has stages, one a device
///   returns   nothing when memory does not suffice
///   source    Qi et al., Zero bubble pipeline parallelism (arXiv 2401.10241), section 3.1
///   time      O(passes x devices)
std::optional<DeviceOrders> zero_bubble_rounds(const PipelineShape& shape,
                                               const ZeroBubbleRule& rule);

}  // namespace tessera
