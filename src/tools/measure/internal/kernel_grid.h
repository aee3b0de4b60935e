// The kernels whose times tell the rates of a device.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace tessera {

/// A kernel at a size.
struct GridPoint {
  LocalCall call;
  /// Is it bound by arithmetic? Then it tells of the arithmetic rate of its kernel, else of the
  /// memory rate at its bytes.
  bool is_arithmetic = false;
};

/// Kernels of all classes, each at sizes from a few bytes to more than the caches hold. It is the
/// same for every model; no configuration has a part in it.
///
///   ensures  i32 operands are indices into tables of at least 256 rows
std::vector<GridPoint> kernel_grid();

}  // namespace tessera
