// The values that variables have before the first step.
#pragma once

#include <cstdint>
#include <string>

#include "base/tensor/split.h"
#include "base/tensor/tensor.h"
#include "ir/graph/graph.h"

namespace tessera {

/// The elements `box` of the initial value of a variable, as f32. Any rank can make any part.
///   ensures  bit-identical to the same elements of the whole
Tensor initial_value(const std::string& name, const TensorType& type,
                     const Initializer& initializer, uint64_t seed, const Box& box);

}  // namespace tessera
