#include "kernels/cpu/catalogue.h"

#include <algorithm>

#include "kernels/cpu/binders.h"

namespace tessera {
namespace {

constexpr InPlace kInPlace = InPlace::kAnyInput, kNever = InPlace::kNever;
constexpr Narrow kElementwise = Narrow::kElementwise, kMoved = Narrow::kMoved;

constexpr CatalogueEntry kCatalogue[] = {
    {"dot_general", bind_dot_general, work_of_dot_general, kNever, workspace_of_dot_general},
    {"unary.neg", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.abs", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.exp", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.log", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.sqrt", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.rsqrt", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.tanh", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.logistic", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.erf", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.sin", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.cos", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.floor", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.ceil", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.round", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.log1p", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.expm1", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.square", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"unary.sign", bind_unary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.add", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.sub", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.mul", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.div", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.max", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.min", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.pow", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.floordiv", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.mod", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.and", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.or", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.xor", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.shift_left", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"binary.shift_right", bind_binary, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"scalar.add", bind_scalar, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"scalar.mul", bind_scalar, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"scalar.max", bind_scalar, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"scalar.min", bind_scalar, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"scalar.pow", bind_scalar, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"compare.eq", bind_compare, work_of_elementwise, kNever, nullptr, kElementwise},
    {"compare.ne", bind_compare, work_of_elementwise, kNever, nullptr, kElementwise},
    {"compare.lt", bind_compare, work_of_elementwise, kNever, nullptr, kElementwise},
    {"compare.le", bind_compare, work_of_elementwise, kNever, nullptr, kElementwise},
    {"compare.gt", bind_compare, work_of_elementwise, kNever, nullptr, kElementwise},
    {"compare.ge", bind_compare, work_of_elementwise, kNever, nullptr, kElementwise},
    {"not", bind_not, work_of_elementwise, kInPlace},
    {"select", bind_select, work_of_elementwise, kInPlace, nullptr, kMoved},
    {"cast", bind_cast, work_of_elementwise, kInPlace, nullptr, kElementwise},
    {"constant", bind_constant, work_of_elementwise, kNever, nullptr, kMoved},
    {"iota", bind_iota, work_of_elementwise},
    {"broadcast", bind_broadcast, work_of_broadcast, kNever, nullptr, kMoved},
    {"copy", bind_copy, work_of_movement, kInPlace, nullptr, kMoved},
    {"transpose", bind_transpose, work_of_transpose, kNever, nullptr, kMoved},
    {"slice", bind_slice, work_of_slice, kNever, nullptr, kMoved},
    {"pad", bind_pad, work_of_joining, kNever, nullptr, kMoved},
    {"concat", bind_concat, work_of_joining, kNever, nullptr, kMoved},
    {"take_chunk", bind_take_chunk, work_of_slice, kNever, nullptr, kMoved},
    {"join_chunks", bind_join_chunks, work_of_joining, kNever, nullptr, kMoved},
    {"reduce.sum", bind_reduce, work_of_reduce},
    {"reduce.max", bind_reduce, work_of_reduce},
    {"reduce.min", bind_reduce, work_of_reduce},
    {"reduce.prod", bind_reduce, work_of_reduce},
    {"reduce.any", bind_reduce, work_of_reduce},
    {"reduce.all", bind_reduce, work_of_reduce},
    {"gather", bind_gather, work_of_gather, kNever, nullptr, kMoved},
    {"scatter_add", bind_scatter_add, work_of_scatter_add},
    {"take_along_dim", bind_take_along_dim, work_of_gather, kNever, nullptr, kMoved},
    {"scatter_add_along_dim", bind_scatter_add_along_dim, work_of_scatter_add},
    {"gather_nd", bind_gather_nd, work_of_gather, kNever, nullptr, kMoved},
    {"scatter_nd", bind_scatter_nd, work_of_scatter_nd, InPlace::kFirstInput, nullptr, kMoved},
    {"scatter_add_nd", bind_scatter_add_nd, work_of_scatter_add},
    {"argmax", bind_argmax, work_of_arg},
    {"argmin", bind_argmin, work_of_arg},
    {"sort", bind_sort, work_of_sort, kNever, workspace_of_sort},
    {"cumsum", bind_cumsum, work_of_cumsum},
    {"reverse", bind_reverse, work_of_movement, kNever, nullptr, kMoved},
    {"grouped_matmul", bind_grouped_matmul, work_of_grouped},
    {"grouped_outer", bind_grouped_outer, work_of_grouped},
    {"dynamic_slice", bind_dynamic_slice, work_of_slice, kNever, nullptr, kMoved},
    {"dynamic_update", bind_dynamic_update, work_of_dynamic_update, InPlace::kFirstInput, nullptr,
     kMoved},
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
