// Are numbers finite, neither infinite nor not-a-number?
#pragma once

#include <cstddef>
#include <span>

#include "base/tensor/dtype.h"

namespace tessera {

/// Are all elements of `data` finite? Whole numbers and booleans always are.
bool all_finite(DType dtype, std::span<const std::byte> data);

}  // namespace tessera
