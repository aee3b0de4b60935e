// Element-wise operators of one operand, and of one operand and a number.
//
// Each is a small struct: its name, its arithmetic on doubles, its cost, its error and its
// derivative. The templates below make an Operator of it.
#include <cmath>
#include <numbers>

#include "ir/ops/builder.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"

namespace tessera {
namespace {

using namespace detail;

/// The arguments of a derivative of one operand.
struct UnaryGradient {
  Builder& builder;
  ValueId x;   // the operand
  ValueId y;   // the result
  ValueId dy;  // the incoming gradient
};

struct UnaryDefaults {
  static constexpr double kFlops = kCheap;
  static constexpr double kRoundings = kExact;
  static constexpr bool kLinear = false;
  // Does it jump where x passes a threshold?
  static constexpr bool kDecides = false;
  // Does it also accept i32? No gradient flows through integers.
  static constexpr bool kIntegers = false;
};

struct Neg : UnaryDefaults {
  static constexpr std::string_view kName = "neg";
  static constexpr auto kPrecision = PrecisionClass::kExact;
  static constexpr bool kIntegers = true;
  static constexpr bool kLinear = true;
  static double apply(double x) { return -x; }
  static ValueId gradient(const UnaryGradient& g) { return g.builder.unary("neg", g.dy, "x"); }
};

struct Abs : UnaryDefaults {
  static constexpr std::string_view kName = "abs";
  static constexpr auto kPrecision = PrecisionClass::kExact;
  static constexpr bool kIntegers = true;
  static double apply(double x) { return std::abs(x); }
  static ValueId gradient(const UnaryGradient& g) {
    return g.builder.mul(g.dy, g.builder.unary("sign", g.x), "x");
  }
};

struct Exp : UnaryDefaults {
  static constexpr std::string_view kName = "exp";
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double x) { return std::exp(x); }
  static ValueId gradient(const UnaryGradient& g) { return g.builder.mul(g.dy, g.y, "x"); }
};

struct Log : UnaryDefaults {
  static constexpr std::string_view kName = "log";
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double x) { return std::log(x); }
  static ValueId gradient(const UnaryGradient& g) { return g.builder.div(g.dy, g.x, "x"); }
};

struct Sqrt : UnaryDefaults {
  static constexpr std::string_view kName = "sqrt";
  static constexpr double kFlops = kDivision, kRoundings = kFewRoundings;
  static double apply(double x) { return std::sqrt(x); }
  static ValueId gradient(const UnaryGradient& g) {
    return g.builder.div(g.builder.mul_scalar(g.dy, 0.5), g.y, "x");
  }
};

struct Rsqrt : UnaryDefaults {
  static constexpr std::string_view kName = "rsqrt";
  static constexpr double kFlops = kDivision, kRoundings = kFewRoundings;
  static double apply(double x) { return 1 / std::sqrt(x); }
  static ValueId gradient(const UnaryGradient& g) {
    // y = x^(-1/2), so dy/dx = -1/2 y^3.
    const ValueId cube = g.builder.mul(g.builder.unary("square", g.y), g.y);
    return g.builder.mul(g.dy, g.builder.mul_scalar(cube, -0.5), "x");
  }
};

struct Tanh : UnaryDefaults {
  static constexpr std::string_view kName = "tanh";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double x) { return std::tanh(x); }
  static ValueId gradient(const UnaryGradient& g) {
    const ValueId minus_square = g.builder.unary("neg", g.builder.unary("square", g.y));
    return g.builder.mul(g.dy, g.builder.add_scalar(minus_square, 1), "x");
  }
};

struct Logistic : UnaryDefaults {
  static constexpr std::string_view kName = "logistic";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double x) { return 1 / (1 + std::exp(-x)); }
  static ValueId gradient(const UnaryGradient& g) {
    return g.builder.mul(g.dy, g.builder.sub(g.y, g.builder.unary("square", g.y)), "x");
  }
};

struct Erf : UnaryDefaults {
  static constexpr std::string_view kName = "erf";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double x) { return std::erf(x); }
  static ValueId gradient(const UnaryGradient& g) {
    const ValueId minus_square = g.builder.unary("neg", g.builder.unary("square", g.x));
    const ValueId bell =
        g.builder.mul_scalar(g.builder.unary("exp", minus_square), 2 * std::numbers::inv_sqrtpi);
    return g.builder.mul(g.dy, bell, "x");
  }
};

struct Sin : UnaryDefaults {
  static constexpr std::string_view kName = "sin";
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double x) { return std::sin(x); }
  static ValueId gradient(const UnaryGradient& g) {
    return g.builder.mul(g.dy, g.builder.unary("cos", g.x), "x");
  }
};

struct Cos : UnaryDefaults {
  static constexpr std::string_view kName = "cos";
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double x) { return std::cos(x); }
  static ValueId gradient(const UnaryGradient& g) {
    return g.builder.mul(g.dy, g.builder.unary("neg", g.builder.unary("sin", g.x)), "x");
  }
};

struct Floor : UnaryDefaults {
  static constexpr std::string_view kName = "floor";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr bool kDecides = true;
  static double apply(double x) { return std::floor(x); }
};

struct Ceil : UnaryDefaults {
  static constexpr std::string_view kName = "ceil";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr bool kDecides = true;
  static double apply(double x) { return std::ceil(x); }
};

/// Rounds halves to the even neighbour.
struct Round : UnaryDefaults {
  static constexpr std::string_view kName = "round";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr bool kDecides = true;
  static double apply(double x) { return std::nearbyint(x); }
};

struct Log1p : UnaryDefaults {
  static constexpr std::string_view kName = "log1p";
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double x) { return std::log1p(x); }
  static ValueId gradient(const UnaryGradient& g) {
    return g.builder.div(g.dy, g.builder.add_scalar(g.x, 1), "x");
  }
};

struct Expm1 : UnaryDefaults {
  static constexpr std::string_view kName = "expm1";
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double x) { return std::expm1(x); }
  static ValueId gradient(const UnaryGradient& g) {
    return g.builder.mul(g.dy, g.builder.add_scalar(g.y, 1), "x");
  }
};

struct Square : UnaryDefaults {
  static constexpr std::string_view kName = "square";
  static constexpr bool kIntegers = true;
  static constexpr double kRoundings = kOneRounding;
  static double apply(double x) { return x * x; }
  static ValueId gradient(const UnaryGradient& g) {
    return g.builder.mul(g.dy, g.builder.mul_scalar(g.x, 2), "x");
  }
};

struct Sign : UnaryDefaults {
  static constexpr std::string_view kName = "sign";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr bool kDecides = true;
  static constexpr bool kIntegers = true;
  static double apply(double x) { return static_cast<double>((x > 0) - (x < 0)); }
};

LinearSets linear_in(bool x) {
  return x ? LinearSets{{0}} : LinearSets{};
}

template <typename F>
concept HasUnaryGradient = requires { &F::gradient; };

template <typename F>
std::vector<TensorType> infer_unary(const OpView& op) {
  detail::expect_operands(F::kName, op, 1);
  if (F::kIntegers)
    detail::expect_dtype(F::kName, op, 0, "x", {DType::kF32, DType::kI32});
  else
    detail::expect_dtype(F::kName, op, 0, "x", {DType::kF32});
  return {op.inputs[0]};
}

template <typename F>
Gradients unary_gradient(Builder& builder, const GradientCall& call) {
  if (!call.wanted[0] || !is_float(builder.type(call.op.inputs[0]).dtype)) return {std::nullopt};
  return {F::gradient({builder, call.op.inputs[0], call.op.outputs[0], *call.output_gradients[0]})};
}

template <typename F>
Operator unary_operator() {
  Operator op;
  op.name = F::kName;
  if constexpr (requires { F::kPrecision; }) op.precision = F::kPrecision;
  op.infer = infer_unary<F>;
  op.rule = [](const OpView& view) { return elementwise_rule(view, linear_in(F::kLinear)); };
  op.work = [](const OpView& view) { return elementwise_work(view, F::kFlops); };
  op.kernel = [](const OpView&, std::span<const Split>) {
    return kernel_call("unary." + std::string(F::kName));
  };
  op.reference = [](const ReferenceCall& call) {
    const std::vector<double>& x = call.inputs[0]->values;
    for (size_t i = 0; i < x.size(); ++i) call.outputs[0].values[i] = F::apply(x[i]);
  };
  op.tolerance = [](const ReferenceCall& call, int output) {
    return is_float(call.outputs[0].type.dtype) ? rounded(call, output, F::kRoundings)
                                                : exact(call, output);
  };
  if constexpr (HasUnaryGradient<F>) op.gradient = unary_gradient<F>;
  if constexpr (F::kDecides)
    op.decision = [](const OpView& view) {
      const bool jumps = is_float(view.inputs[0].dtype);
      return jumps ? Decision{.operands = {0}, .results = {0}} : Decision{};
    };
  return op;
}

// ---- one operand and a number ----

/// The number in the form that every kernel takes.
double scalar_of(const Attributes& attributes) {
  return static_cast<float>(attributes.number("value"));
}

struct ScalarGradient {
  Builder& builder;
  ValueId x;
  ValueId dy;
  double c;

  /// dy where the relation between x and c is true, else 0.
  ValueId where(std::string_view relation) const {
    const TensorType type = builder.type(x);
    const ValueId keeps = builder.compare(relation, x, builder.constant(type, c));
    return builder.select(keeps, dy, builder.constant(type, 0), "x");
  }
};

struct AddScalar : UnaryDefaults {
  static constexpr std::string_view kName = "add_scalar", kKernel = "scalar.add";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr double kRoundings = kOneRounding;
  static double apply(double x, double c) { return x + c; }
  static ValueId gradient(const ScalarGradient& g) { return g.dy; }
};

struct MulScalar : UnaryDefaults {
  static constexpr std::string_view kName = "mul_scalar", kKernel = "scalar.mul";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static constexpr double kRoundings = kOneRounding;
  static constexpr bool kLinear = true;
  static double apply(double x, double c) { return x * c; }
  static ValueId gradient(const ScalarGradient& g) { return g.builder.mul_scalar(g.dy, g.c, "x"); }
};

struct MaxScalar : UnaryDefaults {
  static constexpr std::string_view kName = "max_scalar", kKernel = "scalar.max";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static double apply(double x, double c) { return x >= c ? x : c; }
  static ValueId gradient(const ScalarGradient& g) { return g.where("ge"); }
};

struct MinScalar : UnaryDefaults {
  static constexpr std::string_view kName = "min_scalar", kKernel = "scalar.min";
  static constexpr auto kPrecision = PrecisionClass::kGiven;
  static double apply(double x, double c) { return x <= c ? x : c; }
  static ValueId gradient(const ScalarGradient& g) { return g.where("le"); }
};

struct PowScalar : UnaryDefaults {
  static constexpr std::string_view kName = "pow_scalar", kKernel = "scalar.pow";
  static constexpr double kFlops = kTranscendental, kRoundings = kLibraryRoundings;
  static double apply(double x, double c) { return std::pow(x, c); }
  static ValueId gradient(const ScalarGradient& g) {
    const ValueId slope = g.builder.mul_scalar(g.builder.pow_scalar(g.x, g.c - 1), g.c);
    return g.builder.mul(g.dy, slope, "x");
  }
};

template <typename F>
Gradients scalar_gradient(Builder& builder, const GradientCall& call) {
  if (!call.wanted[0]) return {std::nullopt};
  return {F::gradient(
      {builder, call.op.inputs[0], *call.output_gradients[0], call.op.attributes.number("value")})};
}

template <typename F>
Operator scalar_operator() {
  Operator op;
  op.name = F::kName;
  if constexpr (requires { F::kPrecision; }) op.precision = F::kPrecision;
  op.infer = infer_unary<F>;
  op.rule = [](const OpView& view) { return elementwise_rule(view, linear_in(F::kLinear)); };
  op.work = [](const OpView& view) { return elementwise_work(view, F::kFlops); };
  op.kernel = [](const OpView& view, std::span<const Split>) {
    return kernel_call(std::string(F::kKernel), {}, {view.attributes.number("value")});
  };
  op.reference = [](const ReferenceCall& call) {
    const std::vector<double>& x = call.inputs[0]->values;
    const double c = scalar_of(call.op.attributes);
    for (size_t i = 0; i < x.size(); ++i) call.outputs[0].values[i] = F::apply(x[i], c);
  };
  op.tolerance = [](const ReferenceCall& call, int output) {
    return rounded(call, output, F::kRoundings);
  };
  op.gradient = scalar_gradient<F>;
  return op;
}

template <typename... F>
void append_unary(std::vector<Operator>& list) {
  (list.push_back(unary_operator<F>()), ...);
}

template <typename... F>
void append_scalar(std::vector<Operator>& list) {
  (list.push_back(scalar_operator<F>()), ...);
}

std::vector<Operator> list_unary_operators() {
  std::vector<Operator> list;
  append_unary<Neg, Abs, Exp, Log, Sqrt, Rsqrt, Tanh, Logistic, Erf, Sin, Cos, Floor, Ceil, Round,
               Log1p, Expm1, Square, Sign>(list);
  append_scalar<AddScalar, MulScalar, MaxScalar, MinScalar, PowScalar>(list);
  return list;
}

}  // namespace

std::span<const Operator> unary_operators() {
  static const std::vector<Operator> list = list_unary_operators();
  return list;
}

}  // namespace tessera
