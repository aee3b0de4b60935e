#include "kernels/cpu/catalogue.h"

#include <algorithm>

#include "kernels/cpu/binders.h"

namespace tessera {
namespace {

constexpr InPlace kInPlace = InPlace::kAnyInput;

constexpr CatalogueEntry kCatalogue[] = {
    {"dot_general", bind_dot_general},
    {"unary.neg", bind_unary, kInPlace},
    {"unary.abs", bind_unary, kInPlace},
    {"unary.exp", bind_unary, kInPlace},
    {"unary.log", bind_unary, kInPlace},
    {"unary.sqrt", bind_unary, kInPlace},
    {"unary.rsqrt", bind_unary, kInPlace},
    {"unary.tanh", bind_unary, kInPlace},
    {"unary.logistic", bind_unary, kInPlace},
    {"unary.erf", bind_unary, kInPlace},
    {"unary.sin", bind_unary, kInPlace},
    {"unary.cos", bind_unary, kInPlace},
    {"unary.floor", bind_unary, kInPlace},
    {"unary.ceil", bind_unary, kInPlace},
    {"unary.round", bind_unary, kInPlace},
    {"unary.log1p", bind_unary, kInPlace},
    {"unary.expm1", bind_unary, kInPlace},
    {"unary.square", bind_unary, kInPlace},
    {"unary.sign", bind_unary, kInPlace},
    {"binary.add", bind_binary, kInPlace},
    {"binary.sub", bind_binary, kInPlace},
    {"binary.mul", bind_binary, kInPlace},
    {"binary.div", bind_binary, kInPlace},
    {"binary.max", bind_binary, kInPlace},
    {"binary.min", bind_binary, kInPlace},
    {"binary.pow", bind_binary, kInPlace},
    {"binary.floordiv", bind_binary, kInPlace},
    {"binary.mod", bind_binary, kInPlace},
    {"binary.and", bind_binary, kInPlace},
    {"binary.or", bind_binary, kInPlace},
    {"binary.xor", bind_binary, kInPlace},
    {"binary.shift_left", bind_binary, kInPlace},
    {"binary.shift_right", bind_binary, kInPlace},
    {"scalar.add", bind_scalar, kInPlace},
    {"scalar.mul", bind_scalar, kInPlace},
    {"scalar.max", bind_scalar, kInPlace},
    {"scalar.min", bind_scalar, kInPlace},
    {"scalar.pow", bind_scalar, kInPlace},
    {"compare.eq", bind_compare},
    {"compare.ne", bind_compare},
    {"compare.lt", bind_compare},
    {"compare.le", bind_compare},
    {"compare.gt", bind_compare},
    {"compare.ge", bind_compare},
    {"not", bind_not, kInPlace},
    {"select", bind_select, kInPlace},
    {"cast", bind_cast, kInPlace},
    {"constant", bind_constant},
    {"iota", bind_iota},
    {"broadcast", bind_broadcast},
    {"copy", bind_copy, kInPlace},
    {"transpose", bind_transpose},
    {"slice", bind_slice},
    {"pad", bind_pad},
    {"concat", bind_concat},
    {"take_chunk", bind_take_chunk},
    {"join_chunks", bind_join_chunks},
    {"reduce.sum", bind_reduce},
    {"reduce.max", bind_reduce},
    {"reduce.min", bind_reduce},
    {"reduce.prod", bind_reduce},
    {"reduce.any", bind_reduce},
    {"reduce.all", bind_reduce},
    {"gather", bind_gather},
    {"scatter_add", bind_scatter_add},
    {"take_along_dim", bind_take_along_dim},
    {"scatter_add_along_dim", bind_scatter_add_along_dim},
    {"gather_nd", bind_gather_nd},
    {"scatter_nd", bind_scatter_nd, InPlace::kFirstInput},
    {"scatter_add_nd", bind_scatter_add_nd},
    {"argmax", bind_argmax},
    {"argmin", bind_argmin},
    {"sort", bind_sort},
    {"cumsum", bind_cumsum},
    {"reverse", bind_reverse},
    {"grouped_matmul", bind_grouped_matmul},
    {"grouped_outer", bind_grouped_outer},
    {"dynamic_slice", bind_dynamic_slice},
    {"dynamic_update", bind_dynamic_update, InPlace::kFirstInput},
    {"random_uniform", bind_random_uniform},
    {"attention", bind_attention},
    {"attention_grad", bind_attention_grad},
    {"convolution", bind_convolution},
    {"convolution_grad_input", bind_convolution},
    {"convolution_grad_weight", bind_convolution},
    {"max_pool", bind_max_pool},
    {"max_pool_grad", bind_max_pool_grad},
    {"average_pool", bind_average_pool},
    {"average_pool_grad", bind_average_pool_grad},
    {"resize", bind_resize},
    {"resize_grad", bind_resize_grad},
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
