// Functions for the sources of the movement family. Other modules do not include it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/ops/detail.h"

namespace tessera::detail {

/// The part of movement_operators() that reads or writes a window of a tensor: movement_window.cpp.
Operator slice_operator();
Operator pad_operator();
Operator concat_operator();

/// The attribute "shape" of an op that passed infer.
inline Shape result_shape(const OpView& op) {
  return Shape(std::span<const int64_t>(op.attributes.integers("shape")));
}

/// The op moves its operands once and computes nothing.
inline Work movement_work(const OpView& op) {
  return {Flops(0), operand_bytes(op)};
}

/// Fills the result, element by element, with the element that source(index of the result) reads.
template <typename Source>
void fill_result(const ReferenceCall& call, Source source) {
  ReferenceTensor& out = call.outputs[0];
  Dims index = Dims::filled(out.type.shape.size(), 0);
  for (double& value : out.values) {
    value = source(index);
    advance_index(index, out.type.shape);
  }
}

/// Refuses a list that does not have one entry for each dim of x.
void expect_entry_per_dim(std::string_view kind, const OpView& op, std::string_view attribute);

}  // namespace tessera::detail
