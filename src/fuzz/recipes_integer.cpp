// Recipes of integers and booleans, and of the ways between element types.
#include <algorithm>
#include <cmath>

#include "fuzz/program_maker.h"

namespace tessera::fuzz {
namespace {

bool cook_integers(ProgramMaker& maker) {
  const auto kind = maker.dice().pick(std::vector<std::string_view>{"add", "sub", "mul", "max", "min"});
  const Known a = maker.any(DType::kI32);
  const Known b = maker.of_type(maker.type(a));
  const double most = a.bounds.magnitude() + b.bounds.magnitude() + a.bounds.magnitude() * b.bounds.magnitude();
  return maker.add(maker.make(kind, {a, b}, {}, {-most, most}, true));
}

/// Divisors of both signs, and 0.
bool cook_division(ProgramMaker& maker) {
  const auto kind = maker.dice().pick(std::vector<std::string_view>{"floordiv", "mod"});
  const Known a = maker.any(DType::kI32);
  const Known b = maker.of_type(maker.type(a));
  const double most = std::max(a.bounds.magnitude(), b.bounds.magnitude()) + 1;
  return maker.add(maker.make(kind, {a, b}, {}, {-most, most}, true, false));
}

bool cook_logic(ProgramMaker& maker) {
  const auto kind = maker.dice().pick(std::vector<std::string_view>{"and", "or", "xor", "not"});
  const Known a = maker.any(DType::kBool);
  if (kind == "not") return maker.add(maker.make(kind, {a}, {}, {0, 1}, true, false));
  return maker.add(maker.make(kind, {a, maker.of_type(maker.type(a))}, {}, {0, 1}, true, false));
}

bool cook_cast(ProgramMaker& maker) {
  const std::vector<DType> dtypes{DType::kF32, DType::kI32, DType::kBool};
  const DType from = maker.dice().pick(dtypes), to = maker.dice().pick(dtypes);
  const bool jumps = from == DType::kF32 && to != DType::kF32;
  const Known x = jumps ? maker.any_whole() : maker.any(from);
  const Bounds bounds = to == DType::kBool ? Bounds{0, 1} : x.bounds;
  return maker.add(maker.make("cast", {x}, {{"dtype", std::string(to_text(to))}}, bounds, x.whole, !jumps));
}

constexpr Recipe kRecipes[] = {
    {"integers", 5, cook_integers}, {"division", 3, cook_division}, {"logic", 4, cook_logic}, {"cast", 5, cook_cast}};

}  // namespace

std::span<const Recipe> integer_recipes() {
  return kRecipes;
}

}  // namespace tessera::fuzz
