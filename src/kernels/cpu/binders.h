// The kernels that each family of the CPU adds to the catalogue: one binder for each kind of call.
//
// A binder checks the call (InternalError), does all planning, and returns a function that only
// runs loops. Beside it are the work of the call, and the workspace that the bound kernel needs,
// where it needs one; both follow from the call alone.
#pragma once

#include "kernels/kernel.h"
#include "kernels/work.h"

namespace tessera {

// dot.cpp
BoundKernel bind_dot_general(const LocalCall& call);
LocalWork work_of_dot_general(const LocalCall& call);
Bytes workspace_of_dot_general(const LocalCall& call);

// elementwise.cpp
BoundKernel bind_unary(const LocalCall& call);
BoundKernel bind_binary(const LocalCall& call);
BoundKernel bind_scalar(const LocalCall& call);
BoundKernel bind_compare(const LocalCall& call);
BoundKernel bind_not(const LocalCall& call);
BoundKernel bind_select(const LocalCall& call);
BoundKernel bind_cast(const LocalCall& call);
LocalWork work_of_elementwise(const LocalCall& call);

// movement.cpp
BoundKernel bind_constant(const LocalCall& call);
BoundKernel bind_iota(const LocalCall& call);
BoundKernel bind_broadcast(const LocalCall& call);
BoundKernel bind_copy(const LocalCall& call);
BoundKernel bind_transpose(const LocalCall& call);
BoundKernel bind_slice(const LocalCall& call);
BoundKernel bind_pad(const LocalCall& call);
BoundKernel bind_concat(const LocalCall& call);
BoundKernel bind_take_chunk(const LocalCall& call);
BoundKernel bind_join_chunks(const LocalCall& call);
LocalWork work_of_movement(const LocalCall& call);  // of all operands
LocalWork work_of_broadcast(const LocalCall& call);
LocalWork work_of_transpose(const LocalCall& call);
LocalWork work_of_joining(const LocalCall& call);  // of all operands, each of which is copied
LocalWork work_of_slice(const LocalCall& call);    // of what is taken

// reduce.cpp
BoundKernel bind_reduce(const LocalCall& call);
LocalWork work_of_reduce(const LocalCall& call);

// gather.cpp
BoundKernel bind_gather(const LocalCall& call);
BoundKernel bind_scatter_add(const LocalCall& call);
LocalWork work_of_gather(const LocalCall& call);       // of all gathers
LocalWork work_of_scatter_add(const LocalCall& call);  // of all scatters that add

// gather_along.cpp
BoundKernel bind_take_along_dim(const LocalCall& call);
BoundKernel bind_scatter_add_along_dim(const LocalCall& call);

// gather_nd.cpp
BoundKernel bind_gather_nd(const LocalCall& call);
BoundKernel bind_scatter_nd(const LocalCall& call);
LocalWork work_of_scatter_nd(const LocalCall& call);
BoundKernel bind_scatter_add_nd(const LocalCall& call);

// order.cpp
BoundKernel bind_argmax(const LocalCall& call);
BoundKernel bind_argmin(const LocalCall& call);
BoundKernel bind_sort(const LocalCall& call);
LocalWork work_of_arg(const LocalCall& call);
LocalWork work_of_sort(const LocalCall& call);
Bytes workspace_of_sort(const LocalCall& call);

// scan.cpp
BoundKernel bind_cumsum(const LocalCall& call);
BoundKernel bind_reverse(const LocalCall& call);
LocalWork work_of_cumsum(const LocalCall& call);

// grouped.cpp
BoundKernel bind_grouped_matmul(const LocalCall& call);
BoundKernel bind_grouped_outer(const LocalCall& call);
LocalWork work_of_grouped(const LocalCall& call);

// dynamic.cpp
BoundKernel bind_dynamic_slice(const LocalCall& call);
BoundKernel bind_dynamic_update(const LocalCall& call);
LocalWork work_of_dynamic_update(const LocalCall& call);

// random.cpp
BoundKernel bind_random_uniform(const LocalCall& call);
LocalWork work_of_random_uniform(const LocalCall& call);

// attention.cpp
BoundKernel bind_attention(const LocalCall& call);
BoundKernel bind_attention_grad(const LocalCall& call);
LocalWork work_of_attention(const LocalCall& call);
LocalWork work_of_attention_grad(const LocalCall& call);
Bytes workspace_of_attention(const LocalCall& call);
Bytes workspace_of_attention_grad(const LocalCall& call);

// convolution.cpp: the convolution and both its gradients
BoundKernel bind_convolution(const LocalCall& call);
LocalWork work_of_convolution(const LocalCall& call);
Bytes workspace_of_convolution(const LocalCall& call);

// pooling.cpp
BoundKernel bind_max_pool(const LocalCall& call);
BoundKernel bind_max_pool_grad(const LocalCall& call);
BoundKernel bind_average_pool(const LocalCall& call);
BoundKernel bind_average_pool_grad(const LocalCall& call);
LocalWork work_of_pool(const LocalCall& call);
LocalWork work_of_max_pool_grad(const LocalCall& call);
LocalWork work_of_average_pool_grad(const LocalCall& call);
Bytes workspace_of_pool(const LocalCall& call);
Bytes workspace_of_max_pool_grad(const LocalCall& call);
Bytes workspace_of_average_pool_grad(const LocalCall& call);

// resize.cpp
BoundKernel bind_resize(const LocalCall& call);
BoundKernel bind_resize_grad(const LocalCall& call);
LocalWork work_of_resize(const LocalCall& call);
LocalWork work_of_resize_grad(const LocalCall& call);

}  // namespace tessera
