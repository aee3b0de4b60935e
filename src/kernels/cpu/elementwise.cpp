// unary, binary, scalar, compare, not, select, cast. Float arithmetic is in simd_loops; the
// compiler vectorizes the loops here by itself.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/common/simd_loops.h"

namespace tessera {
namespace {

using Run = std::function<void(const KernelBuffers&)>;
using CountedLoop = void (*)(const KernelBuffers& buffers, int64_t count);

struct NamedLoop {
  std::string_view name;
  CountedLoop loop;
};

CountedLoop find_loop(std::span<const NamedLoop> loops, std::string_view name) {
  for (const NamedLoop& candidate : loops)
    if (candidate.name == name) return candidate.loop;
  return nullptr;
}

BoundKernel counted(CountedLoop loop, int64_t count) {
  return {[loop, count](const KernelBuffers& buffers) { loop(buffers, count); }, Bytes(0)};
}

void require_one_shape(const LocalCall& call) {
  for (const TensorType& type : call.inputs)
    require(call, type.shape == call.outputs[0].shape, "all operands have one shape");
}

bool all_are(const LocalCall& call, DType dtype) {
  const auto is = [dtype](const TensorType& type) { return type.dtype == dtype; };
  return std::all_of(call.inputs.begin(), call.inputs.end(), is) &&
         std::all_of(call.outputs.begin(), call.outputs.end(), is);
}

// i32 arithmetic wraps, as that of the machine does; signed overflow in C++ would be undefined.
int32_t wrap(uint32_t value) {
  return static_cast<int32_t>(value);
}
uint32_t bits(int32_t value) {
  return static_cast<uint32_t>(value);
}

struct WrappingAdd {
  int32_t operator()(int32_t a, int32_t b) const { return wrap(bits(a) + bits(b)); }
};
struct WrappingSubtract {
  int32_t operator()(int32_t a, int32_t b) const { return wrap(bits(a) - bits(b)); }
};
struct WrappingMultiply {
  int32_t operator()(int32_t a, int32_t b) const { return wrap(bits(a) * bits(b)); }
};
struct Larger {
  int32_t operator()(int32_t a, int32_t b) const { return a > b ? a : b; }
};
struct Smaller {
  int32_t operator()(int32_t a, int32_t b) const { return a < b ? a : b; }
};

// Rounds toward minus infinity. It computes in 64 bits, so that the least number divided by -1
// wraps; a division by zero gives 0.
struct FloorDivide {
  int32_t operator()(int32_t a, int32_t b) const {
    if (b == 0) return 0;
    const int64_t quotient = int64_t{a} / b;
    const bool rounded_up = quotient * b != a && (a < 0) != (b < 0);
    return static_cast<int32_t>(quotient - (rounded_up ? 1 : 0));
  }
};
struct FloorModulo {
  int32_t operator()(int32_t a, int32_t b) const {
    if (b == 0) return 0;
    const int64_t remainder = int64_t{a} % b;
    return static_cast<int32_t>(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b
                                                                             : remainder);
  }
};

// Shifts left with zeros, and right with the sign. A number of bits outside 0 to 31 shifts all bits
// out.
struct ShiftLeft {
  int32_t operator()(int32_t a, int32_t b) const {
    return b < 0 || b > 31 ? 0 : wrap(bits(a) << b);
  }
};
struct ShiftRight {
  int32_t operator()(int32_t a, int32_t b) const { return a >> (b < 0 || b > 31 ? 31 : b); }
};

struct WrappingNegate {
  int32_t operator()(int32_t x) const { return wrap(0u - bits(x)); }
};
struct WrappingAbsolute {
  int32_t operator()(int32_t x) const { return x < 0 ? wrap(0u - bits(x)) : x; }
};
struct WrappingSquare {
  int32_t operator()(int32_t x) const { return wrap(bits(x) * bits(x)); }
};
struct SignOf {
  int32_t operator()(int32_t x) const { return (x > 0) - (x < 0); }
};

template <class Operation>
void unary_loop(const KernelBuffers& buffers, int64_t count) {
  const int32_t* x = input<int32_t>(buffers, 0);
  int32_t* out = output<int32_t>(buffers, 0);
  for (int64_t i = 0; i < count; ++i) out[i] = Operation()(x[i]);
}

constexpr NamedLoop kIntUnaryLoops[] = {
    {"neg", unary_loop<WrappingNegate>},
    {"abs", unary_loop<WrappingAbsolute>},
    {"square", unary_loop<WrappingSquare>},
    {"sign", unary_loop<SignOf>},
};

template <typename T, typename Result, class Operation>
void binary_loop(const KernelBuffers& buffers, int64_t count) {
  const T* a = input<T>(buffers, 0);
  const T* b = input<T>(buffers, 1);
  Result* out = output<Result>(buffers, 0);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Result>(Operation()(a[i], b[i]));
}

constexpr NamedLoop kIntLoops[] = {
    {"add", binary_loop<int32_t, int32_t, WrappingAdd>},
    {"sub", binary_loop<int32_t, int32_t, WrappingSubtract>},
    {"mul", binary_loop<int32_t, int32_t, WrappingMultiply>},
    {"max", binary_loop<int32_t, int32_t, Larger>},
    {"min", binary_loop<int32_t, int32_t, Smaller>},
    {"floordiv", binary_loop<int32_t, int32_t, FloorDivide>},
    {"mod", binary_loop<int32_t, int32_t, FloorModulo>},
    {"and", binary_loop<int32_t, int32_t, std::bit_and<>>},
    {"or", binary_loop<int32_t, int32_t, std::bit_or<>>},
    {"xor", binary_loop<int32_t, int32_t, std::bit_xor<>>},
    {"shift_left", binary_loop<int32_t, int32_t, ShiftLeft>},
    {"shift_right", binary_loop<int32_t, int32_t, ShiftRight>},
};

constexpr NamedLoop kBoolLoops[] = {
    {"and", binary_loop<uint8_t, uint8_t, std::bit_and<>>},
    {"or", binary_loop<uint8_t, uint8_t, std::bit_or<>>},
    {"xor", binary_loop<uint8_t, uint8_t, std::bit_xor<>>},
};

template <typename T>
constexpr NamedLoop kCompareLoops[] = {
    {"eq", binary_loop<T, uint8_t, std::equal_to<>>},
    {"ne", binary_loop<T, uint8_t, std::not_equal_to<>>},
    {"lt", binary_loop<T, uint8_t, std::less<>>},
    {"le", binary_loop<T, uint8_t, std::less_equal<>>},
    {"gt", binary_loop<T, uint8_t, std::greater<>>},
    {"ge", binary_loop<T, uint8_t, std::greater_equal<>>},
};

Run run_f32_binary(BinaryLoop loop, int64_t count) {
  return [loop, count](const KernelBuffers& buffers) {
    loop(input<float>(buffers, 0), input<float>(buffers, 1), output<float>(buffers, 0), count);
  };
}

// T has the size of an element and holds its bits.
template <typename T>
void select_loop(const KernelBuffers& buffers, int64_t count) {
  const uint8_t* chosen = input<uint8_t>(buffers, 0);
  const T* a = input<T>(buffers, 1);
  const T* b = input<T>(buffers, 2);
  T* out = output<T>(buffers, 0);
  for (int64_t i = 0; i < count; ++i) {
    const T from_a = a[i], from_b = b[i];  // both are read, so that the loop has no branch
    out[i] = chosen[i] != 0 ? from_a : from_b;
  }
}

void not_loop(const KernelBuffers& buffers, int64_t count) {
  const uint8_t* x = input<uint8_t>(buffers, 0);
  uint8_t* out = output<uint8_t>(buffers, 0);
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] == 0;
}

// Numbers out of range saturate and NaN becomes 0; a plain conversion would be undefined.
int32_t toward_zero(float x) {
  if (!(x > -2147483648.0f)) return x != x ? 0 : std::numeric_limits<int32_t>::min();
  return x < 2147483648.0f ? static_cast<int32_t>(x) : std::numeric_limits<int32_t>::max();
}

template <typename From, typename To>
To converted(From x) {
  if constexpr (std::is_same_v<To, uint8_t>)
    return x != From{0};
  else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, int32_t>)
    return toward_zero(x);
  else
    return static_cast<To>(x);
}

template <typename From, typename To>
void cast_loop(const KernelBuffers& buffers, int64_t count) {
  // memcpy, because the output may use the memory of an input of another type of the same size.
  constexpr int64_t kFromSize = sizeof(From), kToSize = sizeof(To);
  const std::byte* in = buffers.inputs[0];
  std::byte* out = buffers.outputs[0];
  for (int64_t i = 0; i < count; ++i) {
    From x;
    std::memcpy(&x, in + i * kFromSize, kFromSize);
    const To y = converted<From, To>(x);
    std::memcpy(out + i * kToSize, &y, kToSize);
  }
}

template <typename From>
CountedLoop cast_loop_to(DType to) {
  switch (to) {
    case DType::kF32: return cast_loop<From, float>;
    case DType::kI32: return cast_loop<From, int32_t>;
    case DType::kBool: return cast_loop<From, uint8_t>;
    default: return nullptr;
  }
}

CountedLoop find_cast_loop(DType from, DType to) {
  switch (from) {
    case DType::kF32: return cast_loop_to<float>(to);
    case DType::kI32: return cast_loop_to<int32_t>(to);
    case DType::kBool: return cast_loop_to<uint8_t>(to);
    default: return nullptr;
  }
}

}  // namespace

BoundKernel bind_unary(const LocalCall& call) {
  require_operands(call, 1, 1);
  require_one_shape(call);
  if (all_are(call, DType::kI32)) {
    const CountedLoop loop = find_loop(kIntUnaryLoops, operation_of(call));
    require(call, loop != nullptr, "takes f32");
    return counted(loop, output_count(call));
  }
  require(call, all_are(call, DType::kF32), "takes f32");
  const UnaryLoop loop = find_unary_loop(operation_of(call));
  require(call, loop != nullptr, "has no loop");
  const auto run = [loop, count = output_count(call)](const KernelBuffers& buffers) {
    loop(input<float>(buffers, 0), output<float>(buffers, 0), count);
  };
  return {run, Bytes(0)};
}

BoundKernel bind_binary(const LocalCall& call) {
  require_operands(call, 2, 1);
  require_one_shape(call);
  const DType dtype = call.inputs[0].dtype;
  require(call, all_are(call, dtype), "all operands have one element type");
  if (dtype == DType::kF32) {
    const BinaryLoop loop = find_binary_loop(operation_of(call));
    require(call, loop != nullptr, "is not for f32");
    return {run_f32_binary(loop, output_count(call)), Bytes(0)};
  }
  const CountedLoop loop = dtype == DType::kI32 ? find_loop(kIntLoops, operation_of(call))
                                                : find_loop(kBoolLoops, operation_of(call));
  require(call, loop != nullptr, "is not for this element type");
  return counted(loop, output_count(call));
}

BoundKernel bind_scalar(const LocalCall& call) {
  require_operands(call, 1, 1, 0, 1);
  require_one_shape(call);
  require(call, all_are(call, DType::kF32), "takes f32");
  const ScalarLoop loop = find_scalar_loop(operation_of(call));
  require(call, loop != nullptr, "has no loop");
  const auto run = [loop, c = static_cast<float>(call.reals[0]),
                    count = output_count(call)](const KernelBuffers& buffers) {
    loop(input<float>(buffers, 0), c, output<float>(buffers, 0), count);
  };
  return {run, Bytes(0)};
}

BoundKernel bind_compare(const LocalCall& call) {
  require_operands(call, 2, 1);
  require_one_shape(call);
  const DType dtype = call.inputs[0].dtype;
  require(call, call.inputs[1].dtype == dtype && dtype != DType::kBool,
          "compares two of f32 or two of i32");
  require(call, call.outputs[0].dtype == DType::kBool, "gives bool");
  const std::string_view relation = operation_of(call);
  const CountedLoop loop = dtype == DType::kF32 ? find_loop(kCompareLoops<float>, relation)
                                                : find_loop(kCompareLoops<int32_t>, relation);
  require(call, loop != nullptr, "has no loop");
  return counted(loop, output_count(call));
}

BoundKernel bind_not(const LocalCall& call) {
  require_operands(call, 1, 1);
  require_one_shape(call);
  if (all_are(call, DType::kI32)) return counted(unary_loop<std::bit_not<>>, output_count(call));
  require(call, all_are(call, DType::kBool), "takes bool or i32");
  return counted(not_loop, output_count(call));
}

BoundKernel bind_select(const LocalCall& call) {
  require_operands(call, 3, 1);
  require_one_shape(call);
  const DType dtype = call.outputs[0].dtype;
  require(call, call.inputs[0].dtype == DType::kBool, "chooses by a bool");
  require(call, call.inputs[1].dtype == dtype && call.inputs[2].dtype == dtype,
          "chooses between two of the output's type");
  const auto loop = [dtype]() -> CountedLoop {
    switch (size_of(dtype)) {
      case 1: return select_loop<uint8_t>;
      case 2: return select_loop<uint16_t>;
      default: return select_loop<uint32_t>;
    }
  }();
  return counted(loop, output_count(call));
}

BoundKernel bind_cast(const LocalCall& call) {
  require_operands(call, 1, 1);
  require_one_shape(call);
  return counted(find_cast_loop(call.inputs[0].dtype, call.outputs[0].dtype), output_count(call));
}

namespace {

/// Operations for each element. A kernel that computes nothing still counts one, for its pass over
/// memory.
double operations_of_an_element(std::string_view operation) {
  constexpr std::array kDivisions{"div", "floordiv", "mod", "sqrt", "rsqrt"};
  constexpr std::array kFunctions{"exp",      "expm1", "log", "log1p", "tanh",
                                  "logistic", "erf",   "sin", "cos",   "pow"};
  if (std::ranges::find(kDivisions, operation) != kDivisions.end()) return 4;
  return std::ranges::find(kFunctions, operation) != kFunctions.end() ? 12 : 1;
}

}  // namespace

LocalWork work_of_elementwise(const LocalCall& call) {
  return work_over_operands(
      call, OperationClass::kElementwise,
      operations_of_an_element(operation_of(call)) * elements_of(call.outputs[0]));
}

}  // namespace tessera
