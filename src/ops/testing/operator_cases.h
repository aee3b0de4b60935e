// Cases of every operator of the catalogue. Test code.
#pragma once

#include <vector>

#include "ops/testing/operator_check.h"

namespace tessera::testing {

/// At least one case of each operator; extents that no vector length and no number of parts
/// divides.
std::vector<OperatorCase> operator_cases();

/// Operands beyond the blocks and vectors of the kernels: for the checks that run kernels, too
/// large for finite differences.
std::vector<OperatorCase> large_operator_cases();

/// Those of convolution, pooling and resize, which the lists above hold too.
std::vector<OperatorCase> spatial_cases();
std::vector<OperatorCase> large_spatial_cases();

}  // namespace tessera::testing
