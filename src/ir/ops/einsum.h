// A front end of dot_general for einsums of any number of operands.
#pragma once

#include <string_view>
#include <vector>

#include "ir/ops/builder.h"

namespace tessera {

/// The einsum of `operands` as ops of `builder`: diagonals and sums of single operands first, then
/// products from left to right.
///
///   spec      "bhqd,bhkd->bhqk": a letter for each dim of each operand, then those of the result.
///             Without "->" the result has the letters that occur once, in alphabetical order.
///             Blanks are skipped. A letter that occurs twice in an operand takes its diagonal
///   operands  f32; each after the first two is multiplied with the product so far, so choose an
///             order that keeps the products small
///   throws    UserError (65) for a spec that is malformed or does not fit the operands
///   example   einsum(b, "bqd,bkd->bqk", {q, k}) is one dot_general; einsum(b, "ii->", {x}) is the
///             trace
ValueId einsum(Builder& builder, std::string_view spec, const std::vector<ValueId>& operands,
               std::string_view name = {});

}  // namespace tessera
