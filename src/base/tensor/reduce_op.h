// The reductions that combine the parts of a partial value.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tessera {

/// The reduction that combines the values of several ranks, each of which has a part of a sum (or a
/// maximum, ...).
enum class ReduceOp { kSum, kMax, kMin, kProd, kAny, kAll };

struct ReduceOpTraits {
  ReduceOp op;
  std::string_view text;
  bool is_logical;  // for bool; the others are for numbers
};

/// These are in the order of ReduceOp.
inline constexpr std::array<ReduceOpTraits, 6> kReduceOps{{
    {ReduceOp::kSum, "sum", false},
    {ReduceOp::kMax, "max", false},
    {ReduceOp::kMin, "min", false},
    {ReduceOp::kProd, "prod", false},
    {ReduceOp::kAny, "any", true},
    {ReduceOp::kAll, "all", true},
}};

constexpr const ReduceOpTraits& traits(ReduceOp op) {
  return kReduceOps[static_cast<size_t>(op)];
}
/// "sum", "max", "min", "prod", "any", "all"
constexpr std::string_view to_text(ReduceOp op) {
  return traits(op).text;
}
///   throws  UserError when `text` names no reduction
ReduceOp parse_reduce_op(std::string_view text);

}  // namespace tessera
