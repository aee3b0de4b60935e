// Generators of element-wise f32 ops, sources and choices.
#include <algorithm>
#include <array>
#include <cmath>

#include "tools/fuzz/internal/program_maker.h"

namespace tessera::fuzz {
namespace {

/// The requirement of a unary op on its operand, and the range of its results.
enum class Domain { kAny, kSmall, kPositive, kWhole };

struct Unary {
  std::string_view kind;
  Domain domain;
  bool exact;  // whole numbers become whole numbers, without rounding
  Bounds (*bounds)(const Bounds&);
};

Bounds by(const Bounds& x, double (*f)(double)) {
  return {f(x.low), f(x.high)};
}
Bounds unit(const Bounds&) {
  return {-1, 1};
}

constexpr std::array<Unary, 19> kUnary{{
    {"neg", Domain::kAny, true, [](const Bounds& x) { return Bounds{-x.high, -x.low}; }},
    {"abs", Domain::kAny, true, [](const Bounds& x) { return Bounds{0, x.magnitude()}; }},
    {"exp", Domain::kSmall, false, [](const Bounds& x) { return by(x, std::exp); }},
    {"log", Domain::kPositive, false, [](const Bounds& x) { return by(x, std::log); }},
    {"sqrt", Domain::kPositive, false, [](const Bounds& x) { return by(x, std::sqrt); }},
    {"rsqrt", Domain::kPositive, false,
     [](const Bounds& x) { return Bounds{1 / std::sqrt(x.high), 1 / std::sqrt(x.low)}; }},
    {"tanh", Domain::kAny, false, unit},
    {"logistic", Domain::kAny, false, [](const Bounds&) { return Bounds{0, 1}; }},
    {"erf", Domain::kAny, false, unit},
    {"sin", Domain::kSmall, false, unit},
    {"cos", Domain::kSmall, false, unit},
    {"expm1", Domain::kSmall, false, [](const Bounds& x) { return by(x, std::expm1); }},
    {"log1p", Domain::kPositive, false, [](const Bounds& x) { return by(x, std::log1p); }},
    {"ceil", Domain::kWhole, true, [](const Bounds& x) { return by(x, std::ceil); }},
    {"round", Domain::kWhole, true, [](const Bounds& x) { return by(x, std::nearbyint); }},
    {"floor", Domain::kWhole, true, [](const Bounds& x) { return by(x, std::floor); }},
    {"square", Domain::kSmall, true,
     [](const Bounds& x) { return Bounds{0, x.magnitude() * x.magnitude()}; }},
    {"sign", Domain::kWhole, true, unit},
    {"stop_gradient", Domain::kAny, true, [](const Bounds& x) { return x; }},
}};

Known operand_of(ProgramMaker& maker, Domain domain) {
  switch (domain) {
    case Domain::kAny: return maker.any(DType::kF32);
    case Domain::kSmall: return bounded(maker, maker.any(DType::kF32), 3);
    case Domain::kPositive: return positive(maker, maker.any(DType::kF32));
    case Domain::kWhole: return any_whole(maker);
  }
  throw InternalError("unknown domain");
}

/// May discontinuous ops use the result of an op that moves or selects elements of x? If x is
/// rounded, only in the exact subset, where nothing is rounded.
bool stays_whole(const ProgramMaker& maker, bool whole, bool rounds) {
  return whole && (maker.exact() || !rounds);
}

bool add_unary(ProgramMaker& maker) {
  const Unary& op = kUnary[maker.dice().below(kUnary.size())];
  if (maker.exact() && !op.exact) return false;
  const Known x = operand_of(maker, op.domain);
  const bool whole = op.exact && stays_whole(maker, x.whole, op.kind == "square");
  const bool flows = op.kind != "stop_gradient" && op.domain != Domain::kWhole;
  return maker.add(maker.make(op.kind, {x}, {}, op.bounds(x.bounds), whole, flows));
}

bool add_scalar(ProgramMaker& maker) {
  const auto kind = maker.dice().pick(
      std::vector<std::string_view>{"add_scalar", "mul_scalar", "max_scalar", "min_scalar"});
  const Known x = maker.any(DType::kF32);
  const bool fraction = !maker.exact() && maker.dice().chance(0.7);
  const double c = static_cast<double>(maker.dice().between(-3, 3)) * (fraction ? 0.375 : 1.0);
  const Bounds number{c, c};
  Bounds bounds;
  if (kind == "add_scalar")
    bounds = corners(x.bounds, number, [](double a, double b) { return a + b; });
  if (kind == "mul_scalar")
    bounds = corners(x.bounds, number, [](double a, double b) { return a * b; });
  if (kind == "max_scalar")
    bounds = corners(x.bounds, number, [](double a, double b) { return std::max(a, b); });
  if (kind == "min_scalar")
    bounds = corners(x.bounds, number, [](double a, double b) { return std::min(a, b); });
  const bool whole =
      !fraction && stays_whole(maker, x.whole, kind == "add_scalar" || kind == "mul_scalar");
  return maker.add(maker.make(kind, {x}, {{"value", c}}, bounds, whole));
}

bool add_pow_scalar(ProgramMaker& maker) {
  if (maker.exact()) return false;
  const Known x = positive(maker, maker.any(DType::kF32));
  const double c = 0.5 * static_cast<double>(maker.dice().between(-3, 4));
  const Bounds bounds =
      corners(x.bounds, {c, c}, [](double a, double b) { return std::pow(a, b); });
  return maker.add(maker.make("pow_scalar", {x}, {{"value", c}}, bounds, false));
}

bool add_binary(ProgramMaker& maker) {
  const auto kind =
      maker.dice().pick(std::vector<std::string_view>{"add", "sub", "mul", "max", "min"});
  const Known a = maker.any(DType::kF32);
  const Known b = maker.of_type(maker.type(a));
  Bounds bounds;
  if (kind == "add") bounds = corners(a.bounds, b.bounds, [](double x, double y) { return x + y; });
  if (kind == "sub") bounds = corners(a.bounds, b.bounds, [](double x, double y) { return x - y; });
  if (kind == "mul") bounds = corners(a.bounds, b.bounds, [](double x, double y) { return x * y; });
  if (kind == "max")
    bounds = corners(a.bounds, b.bounds, [](double x, double y) { return std::max(x, y); });
  if (kind == "min")
    bounds = corners(a.bounds, b.bounds, [](double x, double y) { return std::min(x, y); });
  const bool whole = stays_whole(maker, a.whole && b.whole, kind != "max" && kind != "min");
  const bool turned = maker.dice().chance(0.3);
  if (turned && kind == "sub") return false;
  return maker.add(
      maker.make(kind, turned ? std::vector{b, a} : std::vector{a, b}, {}, bounds, whole));
}

bool add_div(ProgramMaker& maker) {
  if (maker.exact()) return false;
  const Known a = maker.any(DType::kF32);
  const Known b = positive(maker, maker.of_type(maker.type(a)));
  return maker.add(maker.make("div", {a, b}, {},
                              corners(a.bounds, b.bounds, [](double x, double y) { return x / y; }),
                              false));
}

bool add_pow(ProgramMaker& maker) {
  if (maker.exact()) return false;
  const Known a = positive(maker, maker.any(DType::kF32));
  const Known b = bounded(maker, maker.of_type(maker.type(a)), 2);
  return maker.add(maker.make(
      "pow", {a, b}, {},
      corners(a.bounds, b.bounds, [](double x, double y) { return std::pow(x, y); }), false));
}

bool add_compare(ProgramMaker& maker) {
  const bool integers = maker.dice().chance(0.4);
  const Known a = integers ? maker.any(DType::kI32) : any_whole(maker);
  Known b = integers || maker.exact() ? maker.of_type(maker.type(a))
                                      : maker.new_input(maker.type(a), {true, -3, 3});
  if (!integers) b = without_gradient(maker, b);
  const auto relation =
      maker.dice().pick(std::vector<std::string>{"eq", "ne", "lt", "le", "gt", "ge"});
  return maker.add(maker.make("compare", {a, b}, {{"relation", relation}}, {0, 1}, true, false));
}

bool add_select(ProgramMaker& maker) {
  const DType dtype = maker.dice().pick(
      std::vector<DType>{DType::kF32, DType::kF32, DType::kF32, DType::kI32, DType::kBool});
  const Known a = maker.any(dtype);
  const Known b = maker.of_type(maker.type(a));
  const Known condition = maker.of_type({DType::kBool, maker.shape(a)});
  const Bounds bounds{std::min(a.bounds.low, b.bounds.low), std::max(a.bounds.high, b.bounds.high)};
  return maker.add(maker.make("select", {condition, a, b}, {}, bounds, a.whole && b.whole));
}

bool add_constant(ProgramMaker& maker) {
  const DType dtype =
      maker.dice().pick(std::vector<DType>{DType::kF32, DType::kF32, DType::kI32, DType::kBool});
  const auto value = static_cast<double>(
      maker.dice().between(dtype == DType::kBool ? 0 : -2, dtype == DType::kBool ? 1 : 3));
  const Attributes attributes{{"dtype", std::string(to_text(dtype))},
                              {"shape", list_of(maker.random_shape(0, 3))},
                              {"value", value}};
  return maker.add(maker.make("constant", {}, attributes, {value, value}, true));
}

bool add_iota(ProgramMaker& maker) {
  const Shape shape = maker.random_shape(1, 3);
  const DType dtype = maker.dice().chance(0.5) ? DType::kF32 : DType::kI32;
  const auto dim = maker.dice().below(shape.size());
  const Attributes attributes{
      {"dtype", std::string(to_text(dtype))}, {"shape", list_of(shape)}, {"dim", dim}};
  return maker.add(maker.make("iota", {}, attributes,
                              {0, static_cast<double>(shape[static_cast<int>(dim)])}, true));
}

/// Random numbers; in the exact subset the whole numbers 0 to 7.
bool add_random(ProgramMaker& maker) {
  const ValueId step = maker.step();
  const ValueId drawn = maker.builder().random_uniform(step, maker.random_shape(0, 3), "random");
  if (!maker.exact()) return maker.add({drawn, {0, 1}, false, false});
  const ValueId eighths = maker.builder().mul_scalar(drawn, 8);
  return maker.add({maker.builder().unary("floor", eighths), {0, 7}, true, false});
}

constexpr OpGenerator kElementwiseOps[] = {
    {"unary", 14, add_unary},    {"scalar", 6, add_scalar}, {"pow_scalar", 1, add_pow_scalar},
    {"binary", 16, add_binary},  {"div", 3, add_div},       {"pow", 1, add_pow},
    {"compare", 4, add_compare}, {"select", 4, add_select}, {"constant", 2, add_constant},
    {"iota", 2, add_iota},       {"random", 3, add_random}};

}  // namespace

std::span<const OpGenerator> elementwise_ops() {
  return kElementwiseOps;
}

}  // namespace tessera::fuzz
