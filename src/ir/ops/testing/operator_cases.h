// Cases of every operator of the catalogue. Test code.
#pragma once

#include <vector>

#include "ir/ops/testing/operator_check.h"

namespace tessera::operator_testing {

/// At least one case of each operator. Neither a vector length nor a number of parts divides the
/// extents.
std::vector<OperatorCase> operator_cases();

/// The same cases with f16 and bf16 in place of f32, and sums of such operands in f32. A
/// log-sum-exp stays f32.
std::vector<OperatorCase> narrow_operator_cases();

/// Operands larger than the blocks and vectors of the kernels, for the checks that run kernels.
/// They are too large for finite differences.
std::vector<OperatorCase> large_operator_cases();

/// The cases of convolution, pooling and resize, which the lists above contain too.
std::vector<OperatorCase> spatial_cases();
std::vector<OperatorCase> large_spatial_cases();

}  // namespace tessera::operator_testing
