// The rounding of results to f16 and bf16, for the reference and for tolerances. Kernels compute
// these types in f32 and round every result once; operators define their tolerance in f32.
#pragma once

#include <vector>

#include "ir/ops/operator.h"

namespace tessera {

/// Rounds the elements to the element type, ties to even.
void round_elements(ReferenceTensor& tensor);

/// The largest error that each element of result `output` may have in one evaluation on the same
/// inputs: Operator::tolerance, and where the result is f16 or bf16 the rounding to it. An element
/// without error in f32 has none: reference and kernel round it alike.
///   call  as for Operator::tolerance; its outputs are not rounded to f16 or bf16
std::vector<double> tolerance_of(const Operator& op, const ReferenceCall& call, int output);

}  // namespace tessera
