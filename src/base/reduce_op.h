// The reductions that combine the parts of a partial value.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tessera {

/// How values of several ranks, of which each has a part of a sum (or a maximum, ...), are
/// combined.
enum class ReduceOp { kSum, kMax, kMin, kProd, kAny, kAll };

struct ReduceOpTraits {
  ReduceOp op;
  std::string_view text;
  bool is_logical;  // of bool; else of numbers
};

/// In the order of ReduceOp.
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
/// Throws UserError when `text` names none.
ReduceOp parse_reduce_op(std::string_view text);

}  // namespace tessera
