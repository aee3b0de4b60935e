// The element types that operands of the built-in kernels may have.
#pragma once

#include "base/tensor/dtype.h"
#include "kernels/kernel.h"

namespace tessera {

/// f16 and bf16. Kernels compute them in f32 and round each result once (kernels/cpu/narrow.h).
constexpr bool is_narrow_float(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

/// f32, f16 and bf16: what may be f32 in a built-in kernel or operator may be any of them.
constexpr bool is_kernel_float(DType dtype) {
  return dtype == DType::kF32 || is_narrow_float(dtype);
}

/// May an operand have this type? Tensors of other types are only stored and moved.
constexpr bool may_be_operand(DType dtype) {
  return has_kernels(dtype) || is_narrow_float(dtype);
}

}  // namespace tessera
