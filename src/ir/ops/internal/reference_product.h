// The product of dot_general in doubles, for the reference interpreter: blocked, and on all cores
// when it is large. It shares no code with the kernels.
#pragma once

#include <span>
#include <vector>

#include "base/tensor/dims.h"
#include "base/tensor/einsum.h"

namespace tessera {

/// Adds the product of `a` and `b` to `out`, all in row-major order.
///
///   einsum    of two operands; each letter is in at least two of a, b and the result
///   requires  a letter has one extent wherever it occurs
///   ensures   each element of `out` is a sum of the products in some order that depends on the
///             extents only: neither on the number of cores nor on the values
///   memory    copies of both operands and of the result
///   time      some 5 to 30 GFLOP/s a core (bench/reference_bench.cpp); threads of its own from
///             2^23 products on
void add_product(const Einsum& einsum, const Shape& a_shape, std::span<const double> a,
                 const Shape& b_shape, std::span<const double> b, std::span<double> out);

}  // namespace tessera
