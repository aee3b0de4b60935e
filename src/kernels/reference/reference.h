// The plain-loop twins of the kernels: one small function per kernel, with written-out indices and
// arithmetic in double, without regard to speed.
//
// They share no code with the fast kernels, so that agreement of the two is evidence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "kernels/kernel.h"

namespace tessera {

/// Binds a call to the plain kernel of that name. It has the operands and the meaning of the fast
/// kernel; tests compare the two.
BoundKernel bind_reference_kernel(const LocalCall& call);

}  // namespace tessera

namespace tessera::reference {

using Run = std::function<void(const KernelBuffers&)>;

// Each family returns the function of a call, or an empty one when the kernel is not of the family.
Run dot(const LocalCall& call);
Run elementwise(const LocalCall& call);
Run movement(const LocalCall& call);
Run reduce(const LocalCall& call);
Run gather(const LocalCall& call);
Run gather_nd(const LocalCall& call);
Run order(const LocalCall& call);
Run scan(const LocalCall& call);
Run grouped(const LocalCall& call);
Run dynamic(const LocalCall& call);
Run random(const LocalCall& call);
Run attention(const LocalCall& call);
Run spatial(const LocalCall& call);

/// Element `index` of a tensor as a number. It is exact for every element type.
double read(const TensorType& type, const std::byte* data, int64_t index);
/// Element `index` of a tensor of integers.
int64_t read_integer(const TensorType& type, const std::byte* data, int64_t index);
/// The i32 with the same low 32 bits.
int32_t wrapped(int64_t value);
/// Rounds to the element type and writes the element; i32 wraps.
void write(const TensorType& type, std::byte* data, int64_t index, double value);

/// The row-major number of a position, and its inverse.
int64_t flat_index(const Shape& shape, const Dims& position);
Dims position_of(const Shape& shape, int64_t flat);

}  // namespace tessera::reference
