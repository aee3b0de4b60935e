// Generators of integers and booleans, and of conversions between element types.
#include <algorithm>
#include <cmath>

#include "tools/fuzz/internal/program_maker.h"

namespace tessera::fuzz {
namespace {

bool add_integers(ProgramMaker& maker) {
  const auto kind =
      maker.dice().pick(std::vector<std::string_view>{"add", "sub", "mul", "max", "min"});
  const Known a = maker.any(DType::kI32);
  const Known b = maker.of_type(maker.type(a));
  const double largest =
      a.bounds.magnitude() + b.bounds.magnitude() + a.bounds.magnitude() * b.bounds.magnitude();
  return maker.add(maker.make(kind, {a, b}, {}, {-largest, largest}, true));
}

/// Divisors of both signs, and 0.
bool add_division(ProgramMaker& maker) {
  const auto kind = maker.dice().pick(std::vector<std::string_view>{"floordiv", "mod"});
  const Known a = maker.any(DType::kI32);
  const Known b = maker.of_type(maker.type(a));
  const double largest = std::max(a.bounds.magnitude(), b.bounds.magnitude()) + 1;
  return maker.add(maker.make(kind, {a, b}, {}, {-largest, largest}, true, false));
}

bool add_integer(ProgramMaker& maker) {
  const auto kind =
      maker.dice().pick(std::vector<std::string_view>{"neg", "abs", "square", "sign", "not"});
  const Known x = maker.any(DType::kI32);
  const double largest = x.bounds.magnitude() * std::max(x.bounds.magnitude(), 1.0) + 1;
  return maker.add(maker.make(kind, {x}, {}, {-largest, largest}, true, false));
}

/// The bits of numbers up to 2^n are within -2^n to 2^n.
double up_to_power_of_two(double magnitude) {
  return std::exp2(std::ceil(std::log2(magnitude + 1)));
}

bool add_bits(ProgramMaker& maker) {
  const auto kind = maker.dice().pick(std::vector<std::string_view>{"and", "or", "xor"});
  const Known a = maker.any(DType::kI32);
  const Known b = maker.of_type(maker.type(a));
  const double largest = up_to_power_of_two(std::max(a.bounds.magnitude(), b.bounds.magnitude()));
  return maker.add(maker.make(kind, {a, b}, {}, {-largest, largest}, true, false));
}

/// Shifts by up to 3 bits, or by more bits than an i32 has.
bool add_shift(ProgramMaker& maker) {
  const auto kind = maker.dice().pick(std::vector<std::string_view>{"shift_left", "shift_right"});
  const Known a = maker.any(DType::kI32);
  const Known three{maker.builder().constant(maker.type(a), 3), {3, 3}, true, false};
  const Known places =
      maker.make("min", {maker.of_type(maker.type(a)), three}, {}, {-64, 3}, true, false);
  const double largest = 8 * a.bounds.magnitude() + 1;
  return maker.add(maker.make(kind, {a, places}, {}, {-largest, largest}, true, false));
}

bool add_logic(ProgramMaker& maker) {
  const auto kind = maker.dice().pick(std::vector<std::string_view>{"and", "or", "xor", "not"});
  const Known a = maker.any(DType::kBool);
  if (kind == "not") return maker.add(maker.make(kind, {a}, {}, {0, 1}, true, false));
  return maker.add(maker.make(kind, {a, maker.of_type(maker.type(a))}, {}, {0, 1}, true, false));
}

bool add_cast(ProgramMaker& maker) {
  const std::vector<DType> dtypes{DType::kF32, DType::kI32, DType::kBool};
  const DType from = maker.dice().pick(dtypes), to = maker.dice().pick(dtypes);
  const bool jumps = from == DType::kF32 && to != DType::kF32;
  const Known x = jumps ? any_whole(maker) : maker.any(from);
  const Bounds bounds = to == DType::kBool ? Bounds{0, 1} : x.bounds;
  return maker.add(
      maker.make("cast", {x}, {{"dtype", std::string(to_text(to))}}, bounds, x.whole, !jumps));
}

constexpr OpGenerator kIntegerOps[] = {{"integers", 5, add_integers}, {"division", 3, add_division},
                                       {"integer", 2, add_integer},   {"bits", 2, add_bits},
                                       {"shift", 1, add_shift},       {"logic", 4, add_logic},
                                       {"cast", 5, add_cast}};

}  // namespace

std::span<const OpGenerator> integer_ops() {
  return kIntegerOps;
}

}  // namespace tessera::fuzz
