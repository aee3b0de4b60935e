// unary, binary, scalar, compare, not, select, cast
#include <cmath>
#include <limits>

#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

double unary(std::string_view op, double x) {
  if (op == "neg") return -x;
  if (op == "abs") return std::fabs(x);
  if (op == "exp") return std::exp(x);
  if (op == "log") return std::log(x);
  if (op == "sqrt") return std::sqrt(x);
  if (op == "rsqrt") return 1.0 / std::sqrt(x);
  if (op == "tanh") return std::tanh(x);
  if (op == "logistic") return 1.0 / (1.0 + std::exp(-x));
  if (op == "erf") return std::erf(x);
  if (op == "sin") return std::sin(x);
  if (op == "cos") return std::cos(x);
  if (op == "floor") return std::floor(x);
  if (op == "ceil") return std::ceil(x);
  if (op == "round") return std::nearbyint(x);
  if (op == "log1p") return std::log1p(x);
  if (op == "expm1") return std::expm1(x);
  if (op == "square") return x * x;
  if (op == "sign") return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
  throw InternalError("no reference of unary." + std::string(op));
}

double either_nan(double x, double y) {
  return std::isnan(x) ? x : y;
}

double binary(std::string_view op, double x, double y) {
  if (op == "add") return x + y;
  if (op == "sub") return x - y;
  if (op == "mul") return x * y;
  if (op == "div") return x / y;
  if (op == "max") return std::isnan(x) || std::isnan(y) ? either_nan(x, y) : std::fmax(x, y);
  if (op == "min") return std::isnan(x) || std::isnan(y) ? either_nan(x, y) : std::fmin(x, y);
  if (op == "pow") return std::pow(x, y);
  throw InternalError("no reference of binary." + std::string(op) + " for f32");
}

// Computes in 64 bits, where nothing overflows; the caller wraps.
int64_t binary_int(std::string_view op, int64_t x, int64_t y) {
  if (op == "add") return x + y;
  if (op == "sub") return x - y;
  if (op == "mul") return x * y;
  if (op == "max") return x > y ? x : y;
  if (op == "min") return x < y ? x : y;
  if (op == "floordiv")
    return y == 0
               ? 0
               : static_cast<int64_t>(std::floor(static_cast<double>(x) / static_cast<double>(y)));
  if (op == "mod") return y == 0 ? 0 : x - y * binary_int("floordiv", x, y);
  if (op == "and") return x & y;
  if (op == "or") return x | y;
  if (op == "xor") return x ^ y;
  if (op == "shift_left") return y < 0 || y > 31 ? 0 : x * (int64_t{1} << y);
  if (op == "shift_right")
    return static_cast<int64_t>(
        std::floor(static_cast<double>(x) / std::pow(2.0, y < 0 || y > 31 ? 31 : y)));
  throw InternalError("no reference of binary." + std::string(op) + " for i32");
}

bool binary_bool(std::string_view op, bool x, bool y) {
  if (op == "and") return x && y;
  if (op == "or") return x || y;
  if (op == "xor") return x != y;
  throw InternalError("no reference of binary." + std::string(op) + " for bool");
}

bool compare(std::string_view op, double x, double y) {
  if (op == "eq") return x == y;
  if (op == "ne") return x != y;
  if (op == "lt") return x < y;
  if (op == "le") return x <= y;
  if (op == "gt") return x > y;
  if (op == "ge") return x >= y;
  throw InternalError("no reference of compare." + std::string(op));
}

double cast(DType to, double x) {
  if (to == DType::kBool) return x != 0.0;
  if (is_float(to)) return x;
  if (std::isnan(x)) return 0.0;
  constexpr double kLow = std::numeric_limits<int32_t>::min(),
                   kHigh = std::numeric_limits<int32_t>::max();
  return std::fmin(std::fmax(std::trunc(x), kLow), kHigh);
}

// The value of output element i.
using Element = std::function<double(const KernelBuffers& buffers, int64_t i)>;

Element element_of(const LocalCall& call) {
  const size_t dot = call.kernel.find('.');
  const std::string family = call.kernel.substr(0, dot),
                    op = dot == std::string::npos ? "" : call.kernel.substr(dot + 1);
  const auto x = [call](const KernelBuffers& buffers, size_t operand, int64_t i) {
    return read(call.inputs[operand], buffers.inputs[operand], i);
  };
  if (family == "unary")
    return [=](const KernelBuffers& in, int64_t i) { return unary(op, x(in, 0, i)); };
  if (family == "not" && call.inputs[0].dtype == DType::kI32)
    return [=](const KernelBuffers& in, int64_t i) { return -1.0 - x(in, 0, i); };
  if (family == "scalar") {
    const double c = static_cast<float>(call.reals[0]);
    return [=](const KernelBuffers& in, int64_t i) { return binary(op, x(in, 0, i), c); };
  }
  if (family == "compare")
    return
        [=](const KernelBuffers& in, int64_t i) { return compare(op, x(in, 0, i), x(in, 1, i)); };
  if (family == "not")
    return [=](const KernelBuffers& in, int64_t i) { return x(in, 0, i) == 0.0; };
  if (family == "select")
    return [=](const KernelBuffers& in, int64_t i) {
      return x(in, 0, i) != 0.0 ? x(in, 1, i) : x(in, 2, i);
    };
  if (family == "cast")
    return [=](const KernelBuffers& in, int64_t i) {
      return cast(call.outputs[0].dtype, x(in, 0, i));
    };
  if (family != "binary") return nullptr;
  const DType dtype = call.inputs[0].dtype;
  if (is_float(dtype))
    return [=](const KernelBuffers& in, int64_t i) { return binary(op, x(in, 0, i), x(in, 1, i)); };
  if (dtype == DType::kBool)
    return [=](const KernelBuffers& in, int64_t i) {
      return binary_bool(op, x(in, 0, i) != 0, x(in, 1, i) != 0);
    };
  return [=](const KernelBuffers& in, int64_t i) {
    return wrapped(
        binary_int(op, static_cast<int64_t>(x(in, 0, i)), static_cast<int64_t>(x(in, 1, i))));
  };
}

}  // namespace

Run elementwise(const LocalCall& call) {
  const Element element = element_of(call);
  if (!element) return nullptr;
  return [call, element](const KernelBuffers& buffers) {
    for (int64_t i = 0; i < element_count(call.outputs[0].shape); ++i)
      write(call.outputs[0], buffers.outputs[0], i, element(buffers, i));
  };
}

}  // namespace tessera::reference
