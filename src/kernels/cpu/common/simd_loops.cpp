#include "kernels/cpu/common/simd_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/common/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/common/simd_loops.cpp"
#include <hwy/foreach_target.h>
// The math header must come after foreach_target.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

// Compiled once for each target.
HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

HWY_INLINE Vector constant(float value) {
  return hn::Set(Tag(), value);
}

// Highway's Exp has no defined result above 104 and gives 0 for NaN.
HWY_INLINE Vector exp_of(Vector x) {
  const Vector finite = hn::Exp(Tag(), x);
  const Vector limited = hn::IfThenElse(hn::Gt(x, constant(100.0f)), constant(kInfinity), finite);
  return hn::IfThenElse(hn::IsNaN(x), x, limited);
}

// Highway's Log is for positive finite numbers.
HWY_INLINE Vector log_of(Vector x) {
  const Vector finite = hn::Log(Tag(), x);
  // Infinity and NaN stay.
  const Vector below_infinity = hn::IfThenElse(hn::Lt(x, constant(kInfinity)), finite, x);
  const Vector not_zero =
      hn::IfThenElse(hn::Eq(x, constant(0.0f)), constant(-kInfinity), below_infinity);
  return hn::IfThenElse(hn::Lt(x, constant(0.0f)), constant(kNaN), not_zero);
}

// As exp_of, but a small x keeps its digits.
HWY_INLINE Vector expm1_of(Vector x) {
  const Vector finite = hn::Expm1(Tag(), x);
  const Vector limited = hn::IfThenElse(hn::Gt(x, constant(100.0f)), constant(kInfinity), finite);
  const Vector above = hn::IfThenElse(hn::Lt(x, constant(-80.0f)), constant(-1.0f), limited);
  return hn::IfThenElse(hn::IsNaN(x), x, above);
}

// As log_of, for 1 + x.
HWY_INLINE Vector log1p_of(Vector x) {
  const Vector finite = hn::Log1p(Tag(), x);
  // Infinity and NaN stay.
  const Vector below_infinity = hn::IfThenElse(hn::Lt(x, constant(kInfinity)), finite, x);
  const Vector above =
      hn::IfThenElse(hn::Eq(x, constant(-1.0f)), constant(-kInfinity), below_infinity);
  return hn::IfThenElse(hn::Lt(x, constant(-1.0f)), constant(kNaN), above);
}

// erf(x) for |x| > 0.927: 1 - exp(-p(|x|)), where p is a minimax polynomial. Above 4 the result is
// 1 in f32.
HWY_INLINE Vector erf_of_large(Vector x) {
  const Tag d;
  const Vector t = hn::IfThenElse(hn::Lt(hn::Abs(x), constant(4.0f)), hn::Abs(x), constant(4.0f));
  const Vector square = hn::Mul(t, t);
  const Vector high = hn::MulAdd(constant(-1.72853470e-5f), t, constant(3.83197126e-4f));
  const Vector low = hn::MulAdd(constant(-3.88396438e-3f), t, constant(2.42546219e-2f));
  Vector exponent = hn::MulAdd(high, square, low);
  exponent = hn::MulAdd(exponent, t, constant(-1.06777877e-1f));
  exponent = hn::MulAdd(exponent, t, constant(-6.34846687e-1f));
  exponent = hn::MulAdd(exponent, t, constant(-1.28717512e-1f));
  exponent = hn::MulAdd(exponent, t, hn::Neg(t));
  return hn::CopySign(hn::Sub(constant(1.0f), hn::Exp(d, exponent)), x);
}

// erf(x) for |x| <= 0.927: x + x p(x x). NaN takes this branch and stays.
HWY_INLINE Vector erf_of_small(Vector x) {
  const Vector square = hn::Mul(x, x);
  Vector factor = constant(-5.96761703e-4f);
  factor = hn::MulAdd(factor, square, constant(4.99119423e-3f));
  factor = hn::MulAdd(factor, square, constant(-2.67681349e-2f));
  factor = hn::MulAdd(factor, square, constant(1.12819925e-1f));
  factor = hn::MulAdd(factor, square, constant(-3.76125336e-1f));
  factor = hn::MulAdd(factor, square, constant(1.28379166e-1f));
  return hn::MulAdd(factor, x, x);
}

HWY_INLINE Vector larger(Vector a, Vector b) {
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
}
HWY_INLINE Vector smaller(Vector a, Vector b) {
  return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
}

HWY_INLINE Vector sign_of(Vector x) {
  const Vector one = hn::CopySign(constant(1.0f), x);
  return hn::IfThenElse(hn::Or(hn::Gt(x, constant(0.0f)), hn::Lt(x, constant(0.0f))), one,
                        x);  // zeros and NaN stay
}

struct Negate {
  static HWY_INLINE Vector apply(Vector x) { return hn::Neg(x); }
};
struct Absolute {
  static HWY_INLINE Vector apply(Vector x) { return hn::Abs(x); }
};
struct Exponential {
  static HWY_INLINE Vector apply(Vector x) { return exp_of(x); }
};
struct Logarithm {
  static HWY_INLINE Vector apply(Vector x) { return log_of(x); }
};
struct SquareRoot {
  static HWY_INLINE Vector apply(Vector x) { return hn::Sqrt(x); }
};
struct ReciprocalSquareRoot {
  static HWY_INLINE Vector apply(Vector x) { return hn::Div(constant(1.0f), hn::Sqrt(x)); }
};
struct HyperbolicTangent {
  static HWY_INLINE Vector apply(Vector x) { return hn::Tanh(Tag(), x); }
};
struct Logistic {
  static HWY_INLINE Vector apply(Vector x) {
    return hn::Div(constant(1.0f), hn::Add(constant(1.0f), exp_of(hn::Neg(x))));
  }
};
struct ErrorFunction {
  static HWY_INLINE Vector apply(Vector x) {
    return hn::IfThenElse(hn::Gt(hn::Abs(x), constant(0.927734375f)), erf_of_large(x),
                          erf_of_small(x));
  }
};
struct Floor {
  static HWY_INLINE Vector apply(Vector x) { return hn::Floor(x); }
};
struct Ceil {
  static HWY_INLINE Vector apply(Vector x) { return hn::Ceil(x); }
};
struct Round {
  static HWY_INLINE Vector apply(Vector x) { return hn::Round(x); }
};
struct LogarithmOfOnePlus {
  static HWY_INLINE Vector apply(Vector x) { return log1p_of(x); }
};
struct ExponentialMinusOne {
  static HWY_INLINE Vector apply(Vector x) { return expm1_of(x); }
};
struct Square {
  static HWY_INLINE Vector apply(Vector x) { return hn::Mul(x, x); }
};
struct Sign {
  static HWY_INLINE Vector apply(Vector x) { return sign_of(x); }
};
struct Plus {
  static HWY_INLINE Vector apply(Vector a, Vector b) { return hn::Add(a, b); }
};
struct Minus {
  static HWY_INLINE Vector apply(Vector a, Vector b) { return hn::Sub(a, b); }
};
struct Times {
  static HWY_INLINE Vector apply(Vector a, Vector b) { return hn::Mul(a, b); }
};
struct Divide {
  static HWY_INLINE Vector apply(Vector a, Vector b) { return hn::Div(a, b); }
};
struct Maximum {
  static HWY_INLINE Vector apply(Vector a, Vector b) { return larger(a, b); }
};
struct Minimum {
  static HWY_INLINE Vector apply(Vector a, Vector b) { return smaller(a, b); }
};
struct ExponentialOfDifference {
  static HWY_INLINE Vector apply(Vector a, Vector b) { return exp_of(hn::Sub(a, b)); }
};

int64_t lanes() {
  return static_cast<int64_t>(hn::Lanes(Tag()));
}

// A buffer of one vector for tails, zeroed where the tail ends.
struct Padded {
  alignas(64) float values[hn::MaxLanes(Tag())] = {};
  Padded() = default;
  Padded(const float* from, int64_t count) { std::copy(from, from + count, values); }
};

// Never inlined, so that bodies and tails run the very same instructions. requires: count is a
// multiple of the lanes
template <class Operation>
HWY_NOINLINE void unary_vectors(const float* x, float* out, int64_t count) {
  const Tag d;
  for (int64_t i = 0; i < count; i += lanes())
    hn::StoreU(Operation::apply(hn::LoadU(d, x + i)), d, out + i);
}

template <class Operation>
HWY_NOINLINE void binary_vectors(const float* a, const float* b, float* out, int64_t count) {
  const Tag d;
  for (int64_t i = 0; i < count; i += lanes())
    hn::StoreU(Operation::apply(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
}

template <class Operation>
HWY_NOINLINE void scalar_vectors(const float* x, float c, float* out, int64_t count) {
  const Tag d;
  for (int64_t i = 0; i < count; i += lanes())
    hn::StoreU(Operation::apply(hn::LoadU(d, x + i), constant(c)), d, out + i);
}

template <class Operation>
void unary_loop(const float* x, float* out, int64_t count) {
  const int64_t tail = count % lanes();
  const int64_t body = count - tail;
  unary_vectors<Operation>(x, out, body);
  if (tail == 0) return;
  Padded last(x + body, tail);
  unary_vectors<Operation>(last.values, last.values, lanes());
  std::copy(last.values, last.values + tail, out + body);
}

template <class Operation>
void binary_loop(const float* a, const float* b, float* out, int64_t count) {
  const int64_t tail = count % lanes();
  const int64_t body = count - tail;
  binary_vectors<Operation>(a, b, out, body);
  if (tail == 0) return;
  Padded last_a(a + body, tail);
  const Padded last_b(b + body, tail);
  binary_vectors<Operation>(last_a.values, last_b.values, last_a.values, lanes());
  std::copy(last_a.values, last_a.values + tail, out + body);
}

template <class Operation>
void scalar_loop(const float* x, float c, float* out, int64_t count) {
  const int64_t tail = count % lanes();
  const int64_t body = count - tail;
  scalar_vectors<Operation>(x, c, out, body);
  if (tail == 0) return;
  Padded last(x + body, tail);
  scalar_vectors<Operation>(last.values, c, last.values, lanes());
  std::copy(last.values, last.values + tail, out + body);
}

// Periodic functions need an exact reduction of large arguments, which the C library has; models
// call them rarely.
void sin_loop(const float* x, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = std::sin(x[i]);
}

void cos_loop(const float* x, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = std::cos(x[i]);
}

void pow_loop(const float* a, const float* b, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = std::pow(a[i], b[i]);
}

// The exponents that models use need no general power.
void pow_scalar_loop(const float* x, float c, float* out, int64_t count) {
  if (c == 2.0f) return unary_loop<Square>(x, out, count);
  for (int64_t i = 0; i < count; ++i) out[i] = std::pow(x[i], c);
}

template <typename Loop>
struct Named {
  std::string_view name;
  Loop loop;
};

constexpr Named<UnaryLoop> kUnaryLoops[] = {
    {"neg", unary_loop<Negate>},
    {"abs", unary_loop<Absolute>},
    {"exp", unary_loop<Exponential>},
    {"log", unary_loop<Logarithm>},
    {"sqrt", unary_loop<SquareRoot>},
    {"rsqrt", unary_loop<ReciprocalSquareRoot>},
    {"tanh", unary_loop<HyperbolicTangent>},
    {"logistic", unary_loop<Logistic>},
    {"erf", unary_loop<ErrorFunction>},
    {"sin", sin_loop},
    {"cos", cos_loop},
    {"floor", unary_loop<Floor>},
    {"ceil", unary_loop<Ceil>},
    {"round", unary_loop<Round>},
    {"log1p", unary_loop<LogarithmOfOnePlus>},
    {"expm1", unary_loop<ExponentialMinusOne>},
    {"square", unary_loop<Square>},
    {"sign", unary_loop<Sign>},
};

constexpr Named<BinaryLoop> kBinaryLoops[] = {
    {"add", binary_loop<Plus>},
    {"sub", binary_loop<Minus>},
    {"mul", binary_loop<Times>},
    {"div", binary_loop<Divide>},
    {"max", binary_loop<Maximum>},
    {"min", binary_loop<Minimum>},
    {"pow", pow_loop},
};

constexpr Named<ScalarLoop> kScalarLoops[] = {
    {"add", scalar_loop<Plus>},    {"mul", scalar_loop<Times>},
    {"max", scalar_loop<Maximum>}, {"min", scalar_loop<Minimum>},
    {"pow", pow_scalar_loop},      {"exp_minus", scalar_loop<ExponentialOfDifference>},
};

template <typename Loop, size_t kCount>
Loop find(const Named<Loop> (&loops)[kCount], std::string_view name) {
  for (const Named<Loop>& candidate : loops)
    if (candidate.name == name) return candidate.loop;
  return nullptr;
}

UnaryLoop unary_of_target(std::string_view name) {
  return find(kUnaryLoops, name);
}
BinaryLoop binary_of_target(std::string_view name) {
  return find(kBinaryLoops, name);
}
ScalarLoop scalar_of_target(std::string_view name) {
  return find(kScalarLoops, name);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

HWY_EXPORT(unary_of_target);
HWY_EXPORT(binary_of_target);
HWY_EXPORT(scalar_of_target);

}  // namespace

UnaryLoop find_unary_loop(std::string_view operation) {
  return HWY_DYNAMIC_DISPATCH(unary_of_target)(operation);
}
BinaryLoop find_binary_loop(std::string_view operation) {
  return HWY_DYNAMIC_DISPATCH(binary_of_target)(operation);
}
ScalarLoop find_scalar_loop(std::string_view operation) {
  return HWY_DYNAMIC_DISPATCH(scalar_of_target)(operation);
}

}  // namespace tessera
#endif  // HWY_ONCE
