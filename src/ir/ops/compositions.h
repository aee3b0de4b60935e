// Functions that models ask for by name and that consist of a few ops of the catalogue. Each of
// these ops has its own gradient and sharding rule.
#pragma once

#include <string_view>

#include "ir/ops/builder.h"

namespace tessera {

/// a where the condition is true, else b. A condition with fewer dims than a is broadcast over the
/// leading dims.
ValueId where(Builder& builder, ValueId condition, ValueId a, ValueId b,
              std::string_view name = {});

/// x, limited to at least `low` and at most `high`. The gradient passes where x is in [low, high].
///   requires  low <= high
///   throws    UserError (65) otherwise
ValueId clamp(Builder& builder, ValueId x, double low, double high, std::string_view name = {});

/// f32[.., classes] for ids i32[..]: 1 at the id, 0 elsewhere, and a row of zeros for an id out of
/// range. Every dim may be divided.
ValueId one_hot(Builder& builder, ValueId ids, int64_t classes, std::string_view name = {});

/// A bool in the shape of x, which is f32.
ValueId is_nan(Builder& builder, ValueId x, std::string_view name = {});
ValueId is_finite(Builder& builder, ValueId x, std::string_view name = {});

struct Ordered {
  ValueId values;
  ValueId indices;  // i32
};
/// Sorts along dim. Equal elements stay in the order of their indices; a NaN is greater than all
/// numbers.
Ordered sort(Builder& builder, ValueId x, int dim, bool descending, std::string_view name = {});
/// The k largest elements along dim, in descending order.
Ordered top_k(Builder& builder, ValueId x, int dim, int64_t k, std::string_view name = {});

}  // namespace tessera
