// Numeric kernels on dense tensors in host memory. This module knows tensors; it knows no graph,
// no mesh and no threads.
//
// A kernel call is data: a name in the catalogue, plain parameters, and the types of its operands.
// Binding a call (once, when a program is loaded) checks it, picks an implementation and returns a
// function to run (every step) on pointers. Running allocates nothing. A further kind of device has
// a further catalogue of the same names.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/split.h"
#include "base/tensor/tensor.h"

namespace tessera {

/// A call of a kernel in the form in which the compiler writes it. Its parameters may depend on the
/// coordinate of the rank.
struct KernelCall {
  std::string kernel;          // name in the catalogue, such as "dot_general"
  std::vector<LocalInt> ints;  // meaning and order: kernels/README.md
  std::vector<double> reals;
  std::string text;  // such as the einsum of dot_general

  bool operator==(const KernelCall&) const = default;
};

/// The same call at one coordinate, with the local types of its operands.
struct LocalCall {
  std::string kernel;
  std::vector<int64_t> ints;
  std::vector<double> reals;
  std::string text;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
};

/// The call for the rank at `coordinate`.
LocalCall localize(const KernelCall& call, const Coordinate& coordinate,
                   std::vector<TensorType> inputs, std::vector<TensorType> outputs);

/// The memory of one run. Each pointer is aligned to kTensorAlignment; operands are dense and
/// row-major.
struct KernelBuffers {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* workspace = nullptr;
};

/// A kernel that is ready to run.
///
///   run        allocates nothing and uses only the calling thread. One BoundKernel runs on one
///              thread at a time
///   workspace  bytes that the caller provides for each run; their contents are not kept
struct BoundKernel {
  std::function<void(const KernelBuffers&)> run;
  Bytes workspace{0};
};

/// The element types that the built-in kernels compute with. Tensors of other types are only stored
/// and moved.
inline constexpr std::array kKernelDTypes{DType::kF32, DType::kI32, DType::kBool};
constexpr bool has_kernels(DType dtype) {
  return std::ranges::find(kKernelDTypes, dtype) != kKernelDTypes.end();
}

}  // namespace tessera
