// The work of a kernel call: its arithmetic and its memory traffic, by the class of the operation.
// These are facts of the call; how long they take on a device says the cost model
// (cluster/cost/cost_model.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/tensor/dtype.h"
#include "base/units.h"

namespace tessera {

/// Operations of one class reach similar parts of the speed of a device.
enum class OperationClass : uint8_t {
  kMatmul,
  kConvolution,
  kAttention,    // with its softmax, in one kernel
  kElementwise,  // element i of the result follows from elements i; constants and random numbers
  kReduction,    // also pooling, cumulative sums and sorting
  kGather,       // reads or writes at indices: gather, scatter and their like
  kMovement,     // copies in another order: transpose, slice, concat and their like
};

struct OperationClassName {
  OperationClass operation;
  std::string_view text;
};

/// In the order of OperationClass.
inline constexpr std::array<OperationClassName, 7> kOperationClasses{{
    {OperationClass::kMatmul, "matmul"},
    {OperationClass::kConvolution, "convolution"},
    {OperationClass::kAttention, "attention"},
    {OperationClass::kElementwise, "elementwise"},
    {OperationClass::kReduction, "reduction"},
    {OperationClass::kGather, "gather"},
    {OperationClass::kMovement, "movement"},
}};

/// "matmul", "elementwise".
constexpr std::string_view to_text(OperationClass operation) {
  return kOperationClasses[static_cast<size_t>(operation)].text;
}

/// How a kernel executes its work whose innermost loop runs over a row of pixels, in layouts of its
/// own: a convolution.
struct RowWork {
  /// Of whole vectors of channels, without the elements of windows that lie in the padding.
  Flops executed{0};
  /// Of one row: its pixels, with one element of the window and one block of 16 x 16 channels.
  Flops row{0};
  /// Of the operands that are copied into other layouts before the arithmetic, and of the result
  /// that is copied out of one after it.
  Bytes copied{0};

  bool operator==(const RowWork&) const = default;
};

/// The work of one run of a kernel on the operands of one rank.
struct LocalWork {
  OperationClass operation = OperationClass::kElementwise;
  DType dtype = DType::kF32;  // of the arithmetic
  Flops flops{0};
  Bytes read{0};
  Bytes written{0};
  /// The equal pieces that it computes one after another: the products of a batched matmul, the
  /// rows of a reduction, the runs of consecutive elements of a copy, the pixels of a convolution.
  double pieces = 1;
  /// The kernel, or a way to compute that several kernels share; empty for those of the user.
  std::string_view kernel = {};
  Flops padding{0};  // of `flops`, products with padding, which a kernel may leave out
  /// The smallest extent of a product of matrices: its rows, its columns, or what is summed over.
  /// 0: it is none.
  double smallest_extent = 0;
  std::optional<RowWork> rows = std::nullopt;

  constexpr Bytes bytes() const { return read + written; }
  bool operator==(const LocalWork&) const = default;
};

}  // namespace tessera
