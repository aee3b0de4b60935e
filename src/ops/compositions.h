// Functions that models ask for by name and that are a few ops of the catalogue: each op brings its
// gradient and its sharding rule.
#pragma once

#include <string_view>

#include "ops/builder.h"

namespace tessera {

/// a where the condition holds, else b. A condition with fewer dims than a is broadcast over the
/// leading ones.
ValueId where(Builder& builder, ValueId condition, ValueId a, ValueId b,
              std::string_view name = {});

/// x, at least `low` and at most `high`. The gradient passes where x is between them or on
/// them.
///   requires  low <= high; throws UserError (65) else
ValueId clamp(Builder& builder, ValueId x, double low, double high, std::string_view name = {});

/// f32 [.., classes] of ids i32[..]: 1 at the id, 0 elsewhere; a row of zeros for an id outside.
/// Every dim may be divided.
ValueId one_hot(Builder& builder, ValueId ids, int64_t classes, std::string_view name = {});

/// bool in the shape of x f32.
ValueId is_nan(Builder& builder, ValueId x, std::string_view name = {});
ValueId is_finite(Builder& builder, ValueId x, std::string_view name = {});

struct Ordered {
  ValueId values;
  ValueId indices;  // i32
};
/// Equal elements stay in the order of their indices; a NaN is above all numbers.
Ordered sort(Builder& builder, ValueId x, int dim, bool descending, std::string_view name = {});
/// The k largest along dim, the largest first.
Ordered top_k(Builder& builder, ValueId x, int dim, int64_t k, std::string_view name = {});

}  // namespace tessera
