// Conversions between f32 and the floats of 16 bits, f16 and bf16, in the widest vectors that this
// machine has, chosen at run time.
#pragma once

#include <cstdint>

#include "base/tensor/dtype.h"

namespace tessera {

using WidenLoop = void (*)(const uint16_t* x, float* out, int64_t count);
using RoundLoop = void (*)(const float* x, uint16_t* out, int64_t count);

/// The loop that converts elements of `dtype` to f32, which is exact.
///   requires  is_narrow_float(dtype)
WidenLoop find_widen_loop(DType dtype);

/// The loop that rounds f32 to elements of `dtype`, ties to even; overflow gives an infinity. A NaN
/// keeps its sign and becomes quiet.
///   requires  is_narrow_float(dtype)
RoundLoop find_round_loop(DType dtype);

}  // namespace tessera
