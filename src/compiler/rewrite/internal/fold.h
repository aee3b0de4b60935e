// Folding: an op whose operands are constants becomes a constant.
#pragma once

#include "compiler/rewrite/internal/draft.h"

namespace tessera {

/// Computes ops whose operands hold one number in all elements, and makes constants of them:
///
///     a = constant() {shape=[2, 3], value=2.0}       half = constant() {shape=[6], value=0.5}
///     b = constant() {shape=[2, 3], value=0.25}  ->
///     c = mul(a, b); half = reshape(c) {shape=[6]}
///
/// An element-wise op is computed by its own kernel on single elements, so the constant has the
/// bits of the run: the bits of an element depend neither on its position nor on how many there are
/// (kernels/README.md). An op that only moves elements (broadcast, reshape, transpose, slice,
/// reverse, stop_gradient) keeps the number.
///
/// The op keeps its name, role, stage and result type: only what it reads changes, so no memory and
/// no exchange is added.
///
///   ensures  a second run changes nothing
///   leaves   ops that are kept or that read kept ones; reductions and products of matrices, whose
///            bits depend on how they are divided; the user's own operators; a NaN, whose bits the
///            text form of a constant does not keep
///   time     O(ops)
void fold_constants(GraphDraft& draft);

}  // namespace tessera
