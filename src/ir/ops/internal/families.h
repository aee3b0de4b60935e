// The families of operators, one source each; catalogue.cpp lists them. Other modules do not
// include it.
#pragma once

#include <span>

#include "ir/ops/operator.h"

namespace tessera {

std::span<const Operator> unary_operators();   // neg, exp, ..., and with a number: add_scalar, ...
std::span<const Operator> binary_operators();  // add, mul, ..., and, or, xor
std::span<const Operator> choice_operators();  // compare, not, select, cast, stop_gradient
std::span<const Operator> source_operators();  // constant, iota, random_uniform
std::span<const Operator> dot_operators();     // dot_general
std::span<const Operator>
movement_operators();                          // broadcast, reshape, transpose, slice, pad, concat
std::span<const Operator> reduce_operators();  // reduce
std::span<const Operator> gather_operators();  // gather, scatter_add
std::span<const Operator> gather_along_operators();  // take_along_dim, scatter_add_along_dim
std::span<const Operator> gather_nd_operators();     // gather_nd, scatter_nd, scatter_add_nd
std::span<const Operator> order_operators();         // argmax, argmin, sort, top_k
std::span<const Operator> scan_operators();          // cumsum, reverse
std::span<const Operator> grouped_operators();       // grouped_matmul, grouped_outer
std::span<const Operator> dynamic_operators();       // dynamic_slice, dynamic_update
std::span<const Operator> attention_operators();     // attention, attention_grad
std::span<const Operator> control_operators();       // while, if: not among all_operators()
std::span<const Operator>
convolution_operators();  // convolution, convolution_grad_input, convolution_grad_weight
std::span<const Operator>
pooling_operators();  // max_pool, max_pool_grad, average_pool, average_pool_grad
std::span<const Operator> resize_operators();  // resize, resize_grad

}  // namespace tessera
