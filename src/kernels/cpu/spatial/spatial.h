// Parameters that the spatial kernels share: how a window slides over one dim, and where parts of
// the operand and of the result begin in it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel.h"

namespace tessera {

/// One dim of space in the view of one rank. All begins are positions in the whole dim.
struct LocalWindow {
  int64_t window = 1, stride = 1, dilation = 1, low = 0;
  int64_t extent = 0;     // of the whole operand
  int64_t in_begin = 0;   // of the local part of the operand
  int64_t out_begin = 0;  // of the local positions of the window
  int64_t in = 0;         // local extents
  int64_t out = 0;

  /// The begin of the window of local position 0, in the local operand. It is negative when the
  /// window begins in the padding.
  int64_t first() const { return out_begin * stride - low - in_begin; }
  /// The local positions of the window whose element `w` is at a position in [0, in).
  Range places_of(int64_t w) const;
};

/// The number of integer parameters per dim of space.
inline constexpr size_t kIntsOfWindow = 7;

/// The dims of space of a call, from the operand of the window, `in`, and the tensor of window
/// positions, `out`.
std::vector<LocalWindow> local_windows(const LocalCall& call, const TensorType& in,
                                       const TensorType& out);

}  // namespace tessera
