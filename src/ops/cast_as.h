// Casts of values to an element type that they may have already.
#pragma once

#include "ops/builder.h"

namespace tessera::detail {

/// `value` as `dtype`: itself, or a cast of it.
ValueId as_dtype(Builder& builder, ValueId value, DType dtype);

}  // namespace tessera::detail
