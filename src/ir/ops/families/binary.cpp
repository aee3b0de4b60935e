// Element-wise operators of two operands of one type and shape.
//
// Each is a small struct: its name, its element types, its arithmetic on doubles, its cost, its
// error and its derivative. The templates below make an Operator of it.
#include <array>
#include <cmath>

#include "ir/ops/builder.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"

namespace tessera {
namespace {

using namespace detail;

/// The bits of an i32, or the only one of a bool.
int64_t bits_of(double value) {
  return static_cast<int64_t>(value);
}
double from_bits(int64_t bits) {
  return static_cast<double>(bits);
}

template <typename F>
concept HasBinaryGradient = requires { &F::gradient; };

/// The arguments of a derivative of two operands. `a` and `b` tell which gradients are wanted; each
/// function fills those that it can.
struct BinaryGradient {
  Builder& builder;
  ValueId a, b;
  ValueId y;
  ValueId dy;
  std::vector<bool> wanted;

  Gradients none() const { return {std::nullopt, std::nullopt}; }
  /// dy goes to a where `keeps` is true, and to b elsewhere.
  Gradients by_choice(ValueId keeps) const {
    const ValueId zero = builder.constant(builder.type(dy), 0);
    Gradients result = none();
    if (wanted[0]) result[0] = builder.select(keeps, dy, zero, "a");
    if (wanted[1]) result[1] = builder.select(keeps, zero, dy, "b");
    return result;
  }
};

struct BinaryDefaults {
  static constexpr double kFlops = kCheap;
  static constexpr double kRoundings = kExact;
  static LinearSets linear() { return {}; }
};

struct Add : BinaryDefaults {
  static constexpr std::string_view kName = "add";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr std::array kDTypes{DType::kF32, DType::kI32};
  static constexpr double kRoundings = kOneRounding;
  static LinearSets linear() { return {{0, 1}}; }
  static double apply(double a, double b) { return a + b; }
  static Gradients gradient(const BinaryGradient& g) { return {g.dy, g.dy}; }
};

struct Sub : BinaryDefaults {
  static constexpr std::string_view kName = "sub";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr std::array kDTypes{DType::kF32, DType::kI32};
  static constexpr double kRoundings = kOneRounding;
  static LinearSets linear() { return {{0, 1}}; }
  static double apply(double a, double b) { return a - b; }
  static Gradients gradient(const BinaryGradient& g) {
    Gradients result{g.dy, std::nullopt};
    if (g.wanted[1]) result[1] = g.builder.unary("neg", g.dy, "b");
    return result;
  }
};

struct Mul : BinaryDefaults {
  static constexpr std::string_view kName = "mul";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr std::array kDTypes{DType::kF32, DType::kI32};
  static constexpr double kRoundings = kOneRounding;
  static LinearSets linear() { return {{0}, {1}}; }
  static double apply(double a, double b) { return a * b; }
  static Gradients gradient(const BinaryGradient& g) {
    Gradients result = g.none();
    if (g.wanted[0]) result[0] = g.builder.mul(g.dy, g.b, "a");
    if (g.wanted[1]) result[1] = g.builder.mul(g.dy, g.a, "b");
    return result;
  }
};

struct Div : BinaryDefaults {
  static constexpr std::string_view kName = "div";
  static constexpr std::array kDTypes{DType::kF32};
  static constexpr double kFlops = kDivision, kRoundings = kFewRoundings;
  static LinearSets linear() { return {{0}}; }
  static double apply(double a, double b) { return a / b; }
  static Gradients gradient(const BinaryGradient& g) {
    // y = a / b: dy/da = 1 / b and dy/db = -y / b.
    const ValueId da = g.builder.div(g.dy, g.b, g.wanted[0] ? "a" : "");
    Gradients result{da, std::nullopt};
    if (g.wanted[1]) result[1] = g.builder.unary("neg", g.builder.mul(da, g.y), "b");
    return result;
  }
};

struct Max : BinaryDefaults {
  static constexpr std::string_view kName = "max";
  static constexpr auto kPrecision = PrecisionClass::kExact;
  static constexpr std::array kDTypes{DType::kF32, DType::kI32};
  static double apply(double a, double b) { return a >= b ? a : b; }
  static Gradients gradient(const BinaryGradient& g) {
    return g.by_choice(g.builder.compare("ge", g.a, g.b));
  }
};

struct Min : BinaryDefaults {
  static constexpr std::string_view kName = "min";
  static constexpr auto kPrecision = PrecisionClass::kExact;
  static constexpr std::array kDTypes{DType::kF32, DType::kI32};
  static double apply(double a, double b) { return a <= b ? a : b; }
  static Gradients gradient(const BinaryGradient& g) {
    return g.by_choice(g.builder.compare("le", g.a, g.b));
  }
};

struct Pow : BinaryDefaults {
  static constexpr std::string_view kName = "pow";
  static constexpr std::array kDTypes{DType::kF32};
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double a, double b) { return std::pow(a, b); }
  static Gradients gradient(const BinaryGradient& g) {
    Gradients result = g.none();
    if (g.wanted[0]) {
      const ValueId slope =
          g.builder.mul(g.b, g.builder.op1("pow", {g.a, g.builder.add_scalar(g.b, -1)}));
      result[0] = g.builder.mul(g.dy, slope, "a");
    }
    if (g.wanted[1]) {
      // log a is finite only for a > 0. Elsewhere the power is not a smooth function of b, and its
      // gradient is 0.
      const ValueId zero = g.builder.constant(g.builder.type(g.a), 0);
      const ValueId positive = g.builder.compare("gt", g.a, zero);
      const ValueId slope = g.builder.mul(g.y, g.builder.unary("log", g.a));
      result[1] = g.builder.select(positive, g.builder.mul(g.dy, slope), zero, "b");
    }
    return result;
  }
};

struct FloorDiv : BinaryDefaults {
  static constexpr std::string_view kName = "floordiv";
  static constexpr std::array kDTypes{DType::kI32};
  static constexpr double kFlops = kDivision;
  static double apply(double a, double b) { return b == 0 ? 0 : std::floor(a / b); }
};

struct Mod : BinaryDefaults {
  static constexpr std::string_view kName = "mod";
  static constexpr std::array kDTypes{DType::kI32};
  static constexpr double kFlops = kDivision;
  static double apply(double a, double b) { return b == 0 ? 0 : a - b * std::floor(a / b); }
};

struct And : BinaryDefaults {
  static constexpr std::string_view kName = "and";
  static constexpr std::array kDTypes{DType::kBool, DType::kI32};
  static double apply(double a, double b) { return from_bits(bits_of(a) & bits_of(b)); }
};

struct Or : BinaryDefaults {
  static constexpr std::string_view kName = "or";
  static constexpr std::array kDTypes{DType::kBool, DType::kI32};
  static double apply(double a, double b) { return from_bits(bits_of(a) | bits_of(b)); }
};

struct Xor : BinaryDefaults {
  static constexpr std::string_view kName = "xor";
  static constexpr std::array kDTypes{DType::kBool, DType::kI32};
  static double apply(double a, double b) { return from_bits(bits_of(a) ^ bits_of(b)); }
};

/// Is the shift in the range of an i32? Other shifts move all bits out.
bool is_shift(double places) {
  return places >= 0 && places <= 31;
}

struct ShiftLeft : BinaryDefaults {
  static constexpr std::string_view kName = "shift_left";
  static constexpr std::array kDTypes{DType::kI32};
  static LinearSets linear() { return {{0}}; }
  static double apply(double a, double b) {
    return is_shift(b)
               ? from_bits(static_cast<int32_t>(static_cast<uint32_t>(bits_of(a)) << bits_of(b)))
               : 0;
  }
};

/// Keeps the sign: a / 2^b, rounded toward minus infinity.
struct ShiftRight : BinaryDefaults {
  static constexpr std::string_view kName = "shift_right";
  static constexpr std::array kDTypes{DType::kI32};
  static double apply(double a, double b) {
    return std::floor(std::ldexp(a, is_shift(b) ? -static_cast<int>(b) : -31));
  }
};

template <typename F>
std::vector<TensorType> infer_binary(const OpView& op) {
  detail::expect_operands(F::kName, op, 2);
  detail::expect_dtype(F::kName, op, 0, "a", {F::kDTypes.begin(), F::kDTypes.end()});
  detail::expect_equal_types(F::kName, op, 0, "a", 1, "b");
  return {op.inputs[0]};
}

template <typename F>
Gradients binary_gradient(Builder& builder, const GradientCall& call) {
  // These are ids, not references, because building moves the ops of the graph.
  const BinaryGradient gradient{builder,
                                call.op.inputs[0],
                                call.op.inputs[1],
                                call.op.outputs[0],
                                *call.output_gradients[0],
                                call.wanted};
  if (!is_float(builder.type(gradient.a).dtype)) return gradient.none();
  Gradients result = F::gradient(gradient);
  for (size_t i = 0; i < 2; ++i)
    if (!gradient.wanted[i]) result[i].reset();
  return result;
}

template <typename F>
Operator binary_operator() {
  Operator op;
  op.name = F::kName;
  if constexpr (requires { F::kPrecision; }) op.precision = F::kPrecision;
  op.infer = infer_binary<F>;
  op.rule = [](const OpView& view) { return elementwise_rule(view, F::linear()); };
  op.work = [](const OpView& view) { return elementwise_work(view, F::kFlops); };
  op.kernel = [](const OpView&, std::span<const Split>) {
    return kernel_call("binary." + std::string(F::kName));
  };
  op.reference = [](const ReferenceCall& call) {
    const std::vector<double>&a = call.inputs[0]->values, &b = call.inputs[1]->values;
    for (size_t i = 0; i < a.size(); ++i) call.outputs[0].values[i] = F::apply(a[i], b[i]);
  };
  op.tolerance = [](const ReferenceCall& call, int output) {
    return is_float(call.outputs[0].type.dtype) ? rounded(call, output, F::kRoundings)
                                                : exact(call, output);
  };
  if constexpr (HasBinaryGradient<F>) op.gradient = binary_gradient<F>;
  return op;
}

template <typename... F>
std::vector<Operator> list_binary_operators() {
  return {binary_operator<F>()...};
}

}  // namespace

std::span<const Operator> binary_operators() {
  static const std::vector<Operator> list =
      list_binary_operators<Add, Sub, Mul, Div, Max, Min, Pow, FloorDiv, Mod, And, Or, Xor,
                            ShiftLeft, ShiftRight>();
  return list;
}

}  // namespace tessera
