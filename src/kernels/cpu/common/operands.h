// Checks of a call and typed access to its memory, for the binders of all families.
#pragma once

#include <string_view>

#include "kernels/kernel.h"
#include "kernels/work.h"

namespace tessera {

/// Throws an InternalError with the call and the rule unless `fits`.
void require(const LocalCall& call, bool fits, std::string_view rule);

/// Throws an InternalError unless the call has these numbers of operands and integer parameters.
void require_operands(const LocalCall& call, size_t inputs, size_t outputs, size_t ints = 0,
                      size_t reals = 0);

/// The part of a kernel's name after the dot: "exp" of "unary.exp".
std::string_view operation_of(const LocalCall& call);

/// The number of elements of output 0.
int64_t output_count(const LocalCall& call);

double elements_of(const TensorType& type);

/// Work that reads each input and writes each output once.
LocalWork work_over_operands(const LocalCall& call, OperationClass operation, double flops);
/// Work that computes nothing and moves one tensor: reads it and writes it.
LocalWork work_of_move(const LocalCall& call, OperationClass operation, const TensorType& moved);

template <typename T>
const T* input(const KernelBuffers& buffers, size_t index) {
  return reinterpret_cast<const T*>(buffers.inputs[index]);
}

template <typename T>
T* output(const KernelBuffers& buffers, size_t index) {
  return reinterpret_cast<T*>(buffers.outputs[index]);
}

}  // namespace tessera
