// reduce
#include <cmath>
#include <limits>

#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

double identity(const std::string& op, DType dtype) {
  const bool has_infinity = is_float(dtype);
  if (op == "sum" || op == "any") return 0.0;
  if (op == "prod" || op == "all") return 1.0;
  if (op == "max")
    return has_infinity ? -std::numeric_limits<double>::infinity()
                        : std::numeric_limits<int32_t>::min();
  if (op == "min")
    return has_infinity ? std::numeric_limits<double>::infinity()
                        : std::numeric_limits<int32_t>::max();
  throw InternalError("no reference of reduce." + op);
}

double combine(const std::string& op, double x, double y) {
  if (op == "sum") return x + y;
  if (op == "prod") return x * y;
  if (op == "any") return x != 0.0 || y != 0.0;
  if (op == "all") return x != 0.0 && y != 0.0;
  if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
  return op == "max" ? std::fmax(x, y) : std::fmin(x, y);
}

// i32 wraps after every step, because the product of many numbers would not be exact in a double.
double rounded(DType dtype, double value) {
  if (dtype != DType::kI32) return value;
  return wrapped(static_cast<int64_t>(value));
}

// A position of the input without its reduced dims.
Dims kept_part(const LocalCall& call, const Dims& position) {
  Dims kept;
  for (int dim = 0; dim < position.size(); ++dim) {
    bool reduced = false;
    for (int64_t reduced_dim : call.ints) reduced = reduced || reduced_dim == dim;
    if (!reduced) kept.push_back(position[dim]);
  }
  return kept;
}

}  // namespace

Run reduce(const LocalCall& call) {
  if (!call.kernel.starts_with("reduce.")) return nullptr;
  return [call, op = call.kernel.substr(7)](const KernelBuffers& buffers) {
    const TensorType &in = call.inputs[0], &out = call.outputs[0];
    std::vector<double> results(element_count(out.shape), identity(op, in.dtype));
    for (int64_t i = 0; i < element_count(in.shape); ++i) {
      double& result = results[flat_index(out.shape, kept_part(call, position_of(in.shape, i)))];
      result = rounded(in.dtype, combine(op, result, read(in, buffers.inputs[0], i)));
    }
    for (size_t i = 0; i < results.size(); ++i) write(out, buffers.outputs[0], i, results[i]);
  };
}

}  // namespace tessera::reference
