// The zero-bubble heuristic for a chain of stages with uneven times.
#pragma once

#include <optional>

#include "compiler/schedule/internal/passes.h"

namespace tessera {

struct ZeroBubbleRule {
  /// The last forward before the first backward may end after that backward could have begun.
  bool overshoot = true;
  /// A stage leaves out a forward that the next stage could not take before its backward.
  bool restrained = false;
  /// A W that does not fit its gap is put there when that costs no more time than the fullest
  /// device has lost so far.
  bool greedy = true;
};

/// Orders of a chain, round by round. First come as many forwards as memory and the arrival of the
/// first backward allow, on no stage more than on the previous one. Then each round has one forward
/// and one backward of every stage, with W in the gaps before them and where memory requires it.
/// The remaining W come last.
///
///   requires  find_chain(shape) has stages, one per device
///   returns   nullopt when memory does not suffice
///   source    Qi et al., Zero bubble pipeline parallelism (arXiv 2401.10241), section 3.1
///   time      O(passes x devices)
std::optional<DeviceOrders> zero_bubble_rounds(const PipelineShape& shape,
                                               const ZeroBubbleRule& rule);

}  // namespace tessera
