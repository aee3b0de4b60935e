// Parameters that the kernels of space share: how a window slides over one dim, where parts of the
// operand and of the result lie in it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel.h"

namespace tessera {

/// One dim of space, as the rank at hand sees it. All begins are positions in the whole dim.
struct LocalWindow {
  int64_t window = 1, stride = 1, dilation = 1, low = 0;
  int64_t extent = 0;     // of the whole operand
  int64_t in_begin = 0;   // of the local part of the operand
  int64_t out_begin = 0;  // of the local places of the window
  int64_t in = 0;         // local extents
  int64_t out = 0;

  /// Where the window of local place 0 begins, in the local operand: negative where it begins in
  /// the padding.
  int64_t first() const { return out_begin * stride - low - in_begin; }
  /// The local places of the window whose element `w` is at a position in [0, in).
  Range places_of(int64_t w) const;
};

/// Integer parameters per dim of space.
inline constexpr size_t kIntsOfWindow = 7;

/// The dims of space of a call whose operand of the window is `in` and whose tensor of places is
/// `out`.
std::vector<LocalWindow> local_windows(const LocalCall& call, const TensorType& in,
                                       const TensorType& out);

}  // namespace tessera
