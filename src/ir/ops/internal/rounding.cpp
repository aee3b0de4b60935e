#include "ir/ops/internal/rounding.h"

#include <cmath>
#include <limits>

#include "base/tensor/element.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

double largest_number(DType dtype) {
  return dtype == DType::kF16 ? Float16::of_bits(0x7bff).to_double()
                              : BFloat16::of_bits(0x7f7f).to_double();
}

/// The distance between the smallest numbers of a type.
double min_spacing(DType dtype) {
  return dtype == DType::kF16 ? Float16::of_bits(1).to_double() : BFloat16::of_bits(1).to_double();
}

/// Two numbers that differ by `error` may round to numbers that differ by one spacing more, which
/// is at most 2 u times the larger one.
double error_when_rounded(double value, double error, DType dtype) {
  if (error == 0 || !std::isfinite(value)) return error;
  const double magnitude = std::abs(value) + error, spacing = 2 * unit_roundoff(dtype) * magnitude;
  if (magnitude + spacing > largest_number(dtype)) return std::numeric_limits<double>::infinity();
  return error + spacing + min_spacing(dtype);
}

}  // namespace

void round_elements(ReferenceTensor& tensor) {
  visit_element(tensor.type.dtype, [&]<typename E>(E) {
    for (double& element : tensor.values) element = E::to_number(E::nearest(element));
  });
}

std::vector<double> tolerance_of(const Operator& op, const ReferenceCall& call, int output) {
  std::vector<double> errors = op.tolerance(call, output);
  const ReferenceTensor& result = call.outputs[output];
  if (!is_narrow_float(result.type.dtype)) return errors;
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] = error_when_rounded(result.values[i], errors[i], result.type.dtype);
  return errors;
}

}  // namespace tessera
