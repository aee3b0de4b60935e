// How the parts of a partial value are reduced.
#pragma once

#include <string_view>

namespace tessera {

/// How values of several ranks that each hold a part of a sum (or maximum, ...) come together.
enum class ReduceOp { kSum, kMax, kMin, kProd, kAny, kAll };
std::string_view to_text(ReduceOp op);  // "sum", "max", "min", "prod", "any", "all"
/// Throws UserError when `text` names none.
ReduceOp parse_reduce_op(std::string_view text);

}  // namespace tessera
