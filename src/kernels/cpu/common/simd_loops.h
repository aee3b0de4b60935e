// Elementwise loops over f32 in the widest vectors that this machine has, chosen at run time.
//
// All vector arithmetic of this module is here and in simd_reduce. The result of an element has the
// same bits at every position in the buffer, and for every length of the buffer: a tail is padded
// to a whole vector and computed by the same code. `out` may be an input.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

using UnaryLoop = void (*)(const float* x, float* out, int64_t count);
using BinaryLoop = void (*)(const float* a, const float* b, float* out, int64_t count);
using ScalarLoop = void (*)(const float* x, float c, float* out, int64_t count);

/// The loop of unary.OP, or nullptr. The errors against the exact function are within 4 ulp for
/// exp, expm1, log, log1p, tanh, logistic and erf; the others are exact or within 1 ulp.
UnaryLoop find_unary_loop(std::string_view operation);

/// The loop of binary.OP, or nullptr. max and min give NaN when an operand is NaN.
BinaryLoop find_binary_loop(std::string_view operation);

/// The loop of scalar.OP, or nullptr. In addition to the catalogue's it has "exp_minus": exp(x -
/// c).
ScalarLoop find_scalar_loop(std::string_view operation);

}  // namespace tessera
