// Finds the kernel of a call, built-in or the user's own, and binds it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/tensor/reduce_op.h"
#include "kernels/kernel.h"
#include "kernels/kernel_set.h"
#include "kernels/work.h"

namespace tessera {

/// Binds a call to a kernel of `own` (nullptr: none), otherwise to a built-in kernel.
///
///   requires  an operator made the call, so its operands fit
///   throws    InternalError when the name is unknown or the operands do not fit; UserError (65)
///             when a built-in kernel would need an element type without kernels
BoundKernel bind_kernel(const LocalCall& call, const KernelSet* own = nullptr);

/// The work of a call. Without a formula of the user's own, a kernel of `own` has one operation for
/// each element of its results, elementwise, and moves each operand once.
///
///   requires  as bind_kernel
///   throws    as bind_kernel, for an unknown name
///   time      some arithmetic on the shapes: nothing is bound
LocalWork work_of(const LocalCall& call, const KernelSet* own = nullptr);

/// The workspace that the bound kernel needs. A kernel of `own` without a formula is bound to learn
/// it; no other is.
///
///   requires  as bind_kernel
///   ensures   bind_kernel(call, own).workspace
///   throws    as bind_kernel, for an unknown name and for element types without kernels
Bytes workspace_of(const LocalCall& call, const KernelSet* own = nullptr);

/// The kernel that combines a value with those before it.
std::string accumulating_kernel(ReduceOp op);

/// Returns true when output 0 of this kernel may use the memory of any input of the same type:
/// element i depends on elements i only.
bool runs_in_place(std::string_view kernel, const KernelSet* own = nullptr);

/// Returns true when output 0 of this kernel may use the memory of `input`, which has its type.
/// Equal numbers in `inputs` mean the same input. A kernel that changes parts of its first input,
/// such as dynamic_update, may use only that one, and only when no other operand is the same input.
bool may_write_over(std::string_view kernel, std::span<const int> inputs, int input,
                    const KernelSet* own = nullptr);

/// Keeps libraries from starting threads of their own, because each rank has one thread. Every
/// thread that runs kernels calls it once when it starts.
void use_one_thread_for_kernels();

}  // namespace tessera
