// Casts of values to an element type that they may have already.
#pragma once

#include <string_view>

#include "ir/ops/builder.h"

namespace tessera {

/// Of a cast between floats, `true`: a partial sum is cast part by part, which rounds each part
/// where the whole would be rounded once.
inline constexpr std::string_view kCastsParts = "parts";

}  // namespace tessera

namespace tessera::detail {

/// `value` as `dtype`: itself, or a cast of it.
ValueId as_dtype(Builder& builder, ValueId value, DType dtype);

}  // namespace tessera::detail
