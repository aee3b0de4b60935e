// The orthogonalization of a matrix, as products of the serial graph.
#pragma once

#include <string>

#include "ir/ops/builder.h"

namespace tessera {

/// sqrt(sum of squares) of all elements: f32[].
ValueId norm_of(Builder& builder, ValueId value, const std::string& name);

/// Nearly U V^T of the matrix U S V^T that `value` is, times 0.2 sqrt(max(rows, columns)), which
/// has the root mean square of an update of adamw. Five iterations of Newton and Schulz
///
///     X' = a X + (b A + c A A) X with A = X X^T          (or X (b A + c A A) with A = X^T X)
///
/// from X = value / (its norm + 1e-7), where A is of the smaller side.
///
///   input_dims  the leading dims that are the rows; the others are the columns
///   source      Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024,
///               with its coefficients, which bring singular values from 0.01 on near to 1; the
///               scale is that of Liu et al., "Muon is scalable for LLM training", arXiv 2502.16982
ValueId orthogonalized(Builder& builder, ValueId value, int input_dims);

}  // namespace tessera
