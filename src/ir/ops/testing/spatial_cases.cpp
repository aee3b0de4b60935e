// Cases of the spatial operators: convolution, pooling, resize.
#include "base/testing/tensor_types.h"
#include "ir/ops/testing/operator_cases.h"

namespace tessera::operator_testing {
namespace {

using SpatialCasesCases = std::vector<OperatorCase>;
using SpatialCasesIntegers = std::vector<int64_t>;

SpatialCasesIntegers space_of(const Shape& shape) {
  return SpatialCasesIntegers(shape.begin() + 2, shape.end());
}

/// A convolution by its parameters: x [batch, groups * in, space...], windows of w.
struct Conv {
  Shape x, w;
  SpatialCasesIntegers stride, dilation, low, high;
  int64_t groups = 1;
};

Shape places_of(const Conv& conv) {
  Shape y{conv.x[0], conv.w[0]};
  for (size_t d = 0; d < conv.stride.size(); ++d) {
    const int dim = static_cast<int>(d) + 2;
    y.push_back(
        (conv.x[dim] + conv.low[d] + conv.high[d] - conv.dilation[d] * (conv.w[dim] - 1) - 1) /
            conv.stride[d] +
        1);
  }
  return y;
}

/// All three operators of one convolution.
void add_convolution(SpatialCasesCases& cases, const Conv& conv) {
  const Attributes attributes{{"stride", conv.stride},
                              {"dilation", conv.dilation},
                              {"low", conv.low},
                              {"high", conv.high},
                              {"groups", conv.groups}};
  const Shape y = places_of(conv);
  Attributes to_input = attributes, to_weight = attributes;
  to_input.set("extents", space_of(conv.x));
  to_weight.set("window", space_of(conv.w));
  cases.push_back(
      {.kind = "convolution", .inputs = {f32(conv.x), f32(conv.w)}, .attributes = attributes});
  cases.push_back(
      {.kind = "convolution_grad_input", .inputs = {f32(y), f32(conv.w)}, .attributes = to_input});
  cases.push_back({.kind = "convolution_grad_weight",
                   .inputs = {f32(conv.x), f32(y)},
                   .attributes = to_weight});
}

/// All four operators of one pooling.
void add_pooling(SpatialCasesCases& cases, const Shape& x, const SpatialCasesIntegers& window,
                 const SpatialCasesIntegers& stride, const SpatialCasesIntegers& low,
                 const SpatialCasesIntegers& high) {
  const Attributes attributes{{"window", window}, {"stride", stride}, {"low", low}, {"high", high}};
  const Shape y = places_of({x,
                             [&] {
                               Shape w{x[1], 1};
                               for (int64_t extent : window) w.push_back(extent);
                               return w;
                             }(),
                             stride, SpatialCasesIntegers(window.size(), 1), low, high});
  cases.push_back(
      {.kind = "max_pool", .inputs = {f32(x)}, .attributes = attributes, .bitwise = true});
  cases.push_back({.kind = "max_pool_grad", .inputs = {f32(x), f32(y)}, .attributes = attributes});
  for (bool counts_padding : {false, true}) {
    Attributes average = attributes;
    average.set("counts_padding", counts_padding);
    cases.push_back({.kind = "average_pool", .inputs = {f32(x)}, .attributes = average});
    average.set("extents", space_of(x));
    cases.push_back({.kind = "average_pool_grad", .inputs = {f32(y)}, .attributes = average});
  }
}

void add_resize(SpatialCasesCases& cases, const Shape& x, const SpatialCasesIntegers& extents) {
  Shape y{x[0], x[1]};
  for (int64_t extent : extents) y.push_back(extent);
  for (const char* mode : {"nearest", "linear"})
    for (const char* corners : {"half_pixel", "align_corners"}) {
      Attributes attributes{{"mode", mode}, {"corners", corners}, {"extents", extents}};
      cases.push_back({.kind = "resize", .inputs = {f32(x)}, .attributes = attributes});
      attributes.set("extents", space_of(x));
      cases.push_back({.kind = "resize_grad", .inputs = {f32(y)}, .attributes = attributes});
    }
}

}  // namespace

std::vector<OperatorCase> spatial_cases() {
  SpatialCasesCases cases;
  add_convolution(cases, {{3, 2, 7}, {3, 2, 3}, {1}, {1}, {1}, {1}});
  add_convolution(cases, {{2, 3, 9}, {2, 3, 2}, {3}, {2}, {0}, {2}});
  add_convolution(cases, {{2, 3, 5, 4}, {2, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  add_convolution(cases, {{2, 2, 6, 5}, {3, 2, 3, 2}, {2, 1}, {1, 2}, {1, 0}, {0, 2}});
  add_convolution(cases, {{2, 3, 4, 4}, {5, 3, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}});
  add_convolution(cases, {{2, 6, 4, 3}, {3, 2, 2, 3}, {1, 1}, {1, 1}, {0, 1}, {1, 1}, 3});
  add_convolution(cases, {{2, 3, 4, 4}, {3, 1, 3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}, 3});
  add_convolution(cases,
                  {{1, 2, 3, 4, 3}, {2, 2, 2, 3, 2}, {1, 2, 1}, {1, 1, 2}, {1, 1, 0}, {0, 1, 1}});
  // The padding is wider than the window, so that some positions read no element.
  add_convolution(cases, {{2, 2, 3}, {2, 2, 2}, {1}, {1}, {3}, {4}});
  add_pooling(cases, {2, 3, 7}, {3}, {2}, {1}, {1});
  add_pooling(cases, {2, 2, 5, 4}, {3, 2}, {2, 1}, {1, 0}, {1, 1});
  add_pooling(cases, {3, 2, 4, 4}, {2, 2}, {2, 2}, {0, 0}, {0, 0});
  add_pooling(cases, {1, 2, 3, 3, 4}, {2, 2, 3}, {1, 2, 1}, {1, 0, 2}, {0, 1, 0});
  add_resize(cases, {2, 3, 5}, {8});
  add_resize(cases, {2, 1, 3, 4}, {6, 3});
  add_resize(cases, {1, 2, 4, 3}, {1, 7});
  add_resize(cases, {1, 1, 2, 3, 2}, {3, 2, 4});
  return cases;
}

std::vector<OperatorCase> large_spatial_cases() {
  SpatialCasesCases cases;
  add_convolution(cases, {{2, 19, 9, 11}, {35, 19, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  add_convolution(cases, {{2, 32, 10, 9}, {16, 32, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}});
  add_convolution(cases, {{2, 64, 8, 8}, {33, 64, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}});
  add_convolution(cases, {{2, 48, 7, 8}, {48, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 48});
  add_convolution(cases, {{2, 36, 7, 8}, {24, 18, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2});
  add_convolution(
      cases, {{1, 17, 5, 6, 7}, {18, 17, 3, 3, 3}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}});
  add_convolution(cases, {{3, 33, 70}, {20, 33, 5}, {1}, {3}, {6}, {6}});
  add_pooling(cases, {2, 3, 33, 37}, {3, 3}, {2, 2}, {1, 1}, {1, 1});
  add_resize(cases, {2, 3, 17, 19}, {34, 41});
  return cases;
}

}  // namespace tessera::operator_testing
