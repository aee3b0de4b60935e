#include "kernels/cpu/catalogue.h"

#include <algorithm>

#include "kernels/cpu/binders.h"

namespace tessera {
namespace {

constexpr InPlace kInPlace = InPlace::kAnyInput, kNever = InPlace::kNever;

constexpr CatalogueEntry kCatalogue[] = {
    {"dot_general", bind_dot_general, work_of_dot_general, kNever, workspace_of_dot_general},
    {"unary.neg", bind_unary, work_of_elementwise, kInPlace},
    {"unary.abs", bind_unary, work_of_elementwise, kInPlace},
    {"unary.exp", bind_unary, work_of_elementwise, kInPlace},
    {"unary.log", bind_unary, work_of_elementwise, kInPlace},
    {"unary.sqrt", bind_unary, work_of_elementwise, kInPlace},
    {"unary.rsqrt", bind_unary, work_of_elementwise, kInPlace},
    {"unary.tanh", bind_unary, work_of_elementwise, kInPlace},
    {"unary.logistic", bind_unary, work_of_elementwise, kInPlace},
    {"unary.erf", bind_unary, work_of_elementwise, kInPlace},
    {"unary.sin", bind_unary, work_of_elementwise, kInPlace},
    {"unary.cos", bind_unary, work_of_elementwise, kInPlace},
    {"unary.floor", bind_unary, work_of_elementwise, kInPlace},
    {"unary.ceil", bind_unary, work_of_elementwise, kInPlace},
    {"unary.round", bind_unary, work_of_elementwise, kInPlace},
    {"unary.log1p", bind_unary, work_of_elementwise, kInPlace},
    {"unary.expm1", bind_unary, work_of_elementwise, kInPlace},
    {"unary.square", bind_unary, work_of_elementwise, kInPlace},
    {"unary.sign", bind_unary, work_of_elementwise, kInPlace},
    {"binary.add", bind_binary, work_of_elementwise, kInPlace},
    {"binary.sub", bind_binary, work_of_elementwise, kInPlace},
    {"binary.mul", bind_binary, work_of_elementwise, kInPlace},
    {"binary.div", bind_binary, work_of_elementwise, kInPlace},
    {"binary.max", bind_binary, work_of_elementwise, kInPlace},
    {"binary.min", bind_binary, work_of_elementwise, kInPlace},
    {"binary.pow", bind_binary, work_of_elementwise, kInPlace},
    {"binary.floordiv", bind_binary, work_of_elementwise, kInPlace},
    {"binary.mod", bind_binary, work_of_elementwise, kInPlace},
    {"binary.and", bind_binary, work_of_elementwise, kInPlace},
    {"binary.or", bind_binary, work_of_elementwise, kInPlace},
    {"binary.xor", bind_binary, work_of_elementwise, kInPlace},
    {"binary.shift_left", bind_binary, work_of_elementwise, kInPlace},
    {"binary.shift_right", bind_binary, work_of_elementwise, kInPlace},
    {"scalar.add", bind_scalar, work_of_elementwise, kInPlace},
    {"scalar.mul", bind_scalar, work_of_elementwise, kInPlace},
    {"scalar.max", bind_scalar, work_of_elementwise, kInPlace},
    {"scalar.min", bind_scalar, work_of_elementwise, kInPlace},
    {"scalar.pow", bind_scalar, work_of_elementwise, kInPlace},
    {"compare.eq", bind_compare, work_of_elementwise},
    {"compare.ne", bind_compare, work_of_elementwise},
    {"compare.lt", bind_compare, work_of_elementwise},
    {"compare.le", bind_compare, work_of_elementwise},
    {"compare.gt", bind_compare, work_of_elementwise},
    {"compare.ge", bind_compare, work_of_elementwise},
    {"not", bind_not, work_of_elementwise, kInPlace},
    {"select", bind_select, work_of_elementwise, kInPlace},
    {"cast", bind_cast, work_of_elementwise, kInPlace},
    {"constant", bind_constant, work_of_elementwise},
    {"iota", bind_iota, work_of_elementwise},
    {"broadcast", bind_broadcast, work_of_broadcast},
    {"copy", bind_copy, work_of_movement, kInPlace},
    {"transpose", bind_transpose, work_of_transpose},
    {"slice", bind_slice, work_of_slice},
    {"pad", bind_pad, work_of_joining},
    {"concat", bind_concat, work_of_joining},
    {"take_chunk", bind_take_chunk, work_of_slice},
    {"join_chunks", bind_join_chunks, work_of_joining},
    {"reduce.sum", bind_reduce, work_of_reduce},
    {"reduce.max", bind_reduce, work_of_reduce},
    {"reduce.min", bind_reduce, work_of_reduce},
    {"reduce.prod", bind_reduce, work_of_reduce},
    {"reduce.any", bind_reduce, work_of_reduce},
    {"reduce.all", bind_reduce, work_of_reduce},
    {"gather", bind_gather, work_of_gather},
    {"scatter_add", bind_scatter_add, work_of_scatter_add},
    {"take_along_dim", bind_take_along_dim, work_of_gather},
    {"scatter_add_along_dim", bind_scatter_add_along_dim, work_of_scatter_add},
    {"gather_nd", bind_gather_nd, work_of_gather},
    {"scatter_nd", bind_scatter_nd, work_of_scatter_nd, InPlace::kFirstInput},
    {"scatter_add_nd", bind_scatter_add_nd, work_of_scatter_add},
    {"argmax", bind_argmax, work_of_arg},
    {"argmin", bind_argmin, work_of_arg},
    {"sort", bind_sort, work_of_sort, kNever, workspace_of_sort},
    {"cumsum", bind_cumsum, work_of_cumsum},
    {"reverse", bind_reverse, work_of_movement},
    {"grouped_matmul", bind_grouped_matmul, work_of_grouped},
    {"grouped_outer", bind_grouped_outer, work_of_grouped},
    {"dynamic_slice", bind_dynamic_slice, work_of_slice},
    {"dynamic_update", bind_dynamic_update, work_of_dynamic_update, InPlace::kFirstInput},
    {"random_uniform", bind_random_uniform, work_of_random_uniform},
    {"attention", bind_attention, work_of_attention, kNever, workspace_of_attention},
    {"attention_grad", bind_attention_grad, work_of_attention_grad, kNever,
     workspace_of_attention_grad},
    {"convolution", bind_convolution, work_of_convolution, kNever, workspace_of_convolution},
    {"convolution_grad_input", bind_convolution, work_of_convolution, kNever,
     workspace_of_convolution},
    {"convolution_grad_weight", bind_convolution, work_of_convolution, kNever,
     workspace_of_convolution},
    {"max_pool", bind_max_pool, work_of_pool, kNever, workspace_of_pool},
    {"max_pool_grad", bind_max_pool_grad, work_of_max_pool_grad, kNever,
     workspace_of_max_pool_grad},
    {"average_pool", bind_average_pool, work_of_pool, kNever, workspace_of_pool},
    {"average_pool_grad", bind_average_pool_grad, work_of_average_pool_grad, kNever,
     workspace_of_average_pool_grad},
    {"resize", bind_resize, work_of_resize},
    {"resize_grad", bind_resize_grad, work_of_resize_grad},
};

}  // namespace

std::span<const CatalogueEntry> cpu_catalogue() {
  return kCatalogue;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : kCatalogue) names.emplace_back(entry.name);
  std::ranges::sort(names);
  return names;
}

}  // namespace tessera
