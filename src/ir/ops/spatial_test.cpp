// convolution, pooling and resize: rules, refusals, values, and the functions that write them into
// a graph.
#include "ir/ops/spatial.h"

#include <gmock/gmock.h>

#include "base/testing/tensor_types.h"
#include "ir/ops/interpreter.h"
#include "ir/ops/testing/operator_check.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using SpatialIntegers = std::vector<int64_t>;

Attributes plain(size_t count, int64_t groups = 1) {
  const SpatialIntegers ones(count, 1), zeros(count, 0);
  return {
      {"stride", ones}, {"dilation", ones}, {"low", zeros}, {"high", zeros}, {"groups", groups}};
}

OpView spatial_view_of(std::string_view kind, const Attributes& attributes,
                       std::vector<TensorType> inputs) {
  OpView view{"body.op", attributes, std::move(inputs), {}};
  view.outputs = find_operator(kind).infer(view);
  return view;
}

std::string spatial_rule_text(std::string_view kind, const Attributes& attributes,
                              std::vector<TensorType> inputs) {
  return to_text(find_operator(kind).rule(spatial_view_of(kind, attributes, std::move(inputs))));
}

std::string spatial_refusal(std::string_view kind, const Attributes& attributes,
                            std::vector<TensorType> inputs) {
  try {
    spatial_view_of(kind, attributes, std::move(inputs));
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

/// A graph of one op on given numbers, evaluated by the reference interpreter.
struct Bench {
  Graph graph;
  Builder builder{graph};
  ReferenceValues state;

  ValueId input(const std::string& name, Shape shape, std::vector<double> values) {
    state[name] = {f32(shape), std::move(values)};
    return builder.input(name, f32(shape));
  }
  std::vector<double> value(ValueId id) {
    return interpret(graph, state).at(graph.value(id).name).values;
  }
};

// ---- convolution ----

TEST(Convolution, DividesBatchChannelsAndPlacesWhichNeedWhatTheySee) {
  EXPECT_EQ(spatial_rule_text("convolution", plain(2), {f32({8, 3, 6, 5}), f32({4, 3, 3, 2})}),
            "([n, ci, o0~(+0:+2), o1~(+0:+1)], [co, ci, k0, k1]) -> ([n, co, o0, o1]) {ci: "
            "reduction sum, k0: whole, k1: whole} {linear: 0; 1}");
}

TEST(Convolution, DividesGroupsAndThenNoChannelsInThem) {
  EXPECT_EQ(spatial_rule_text("convolution", plain(1, 3), {f32({8, 6, 5}), f32({12, 2, 3})}),
            "([n, g*2, o0~(+0:+2)], [g*4, ci, k0]) -> ([n, g*4, o0]) {ci: whole, k0: whole} "
            "{linear: 0; 1}");
}

TEST(Convolution, GradientsAreSumsOverOutChannelsAndOverBatchAndPlaces) {
  Attributes to_input = plain(1), to_weight = plain(1);
  to_input.set("extents", SpatialIntegers{7});
  to_weight.set("window", SpatialIntegers{3});
  EXPECT_EQ(spatial_rule_text("convolution_grad_input", to_input, {f32({8, 4, 5}), f32({4, 3, 3})}),
            "([n, co, i0~(-2:+0)], [co, ci, k0]) -> ([n, ci, i0]) {co: reduction sum, k0: whole} "
            "{linear: 0; 1}");
  EXPECT_EQ(
      spatial_rule_text("convolution_grad_weight", to_weight, {f32({8, 3, 7}), f32({8, 4, 5})}),
      "([n, ci, o0~(+0:+2)], [n, co, o0]) -> ([co, ci, k0]) {n: reduction sum, k0: whole, "
      "o0: reduction sum} {linear: 0; 1}");
}

TEST(Convolution, CountsAMultiplicationAndAnAdditionForEachElementOfTheWindowAtEachPlace) {
  const Attributes attributes = plain(2);
  const Work work =
      find_operator("convolution")
          .work(spatial_view_of("convolution", attributes, {f32({8, 3, 6, 5}), f32({4, 3, 3, 2})}));
  EXPECT_EQ(work.flops.value(), 2 * 8 * 4 * (4 * 4) * 3 * (3 * 2));
}

TEST(Convolution, SlidesItsWindowWithoutTurningItRound) {
  Bench bench;
  const ValueId x = bench.input("x", {1, 1, 4}, {1, 2, 3, 4}),
                w = bench.input("w", {1, 1, 3}, {1, 10, 100});
  // With a zero before and none behind, the windows are 0 1 2, 1 2 3, 2 3 4.
  EXPECT_THAT(bench.value(convolution(bench.builder, x, w, {.low = {1}})),
              ElementsAre(210, 321, 432));
  // Every other position, with neighbours two apart.
  EXPECT_THAT(bench.value(convolution(bench.builder, x, w, {.stride = {2}, .low = {1}})),
              ElementsAre(210, 432));
  EXPECT_THAT(
      bench.value(convolution(bench.builder, x, w, {.dilation = {2}, .low = {1}, .high = {1}})),
      ElementsAre(420, 31));
}

TEST(Convolution, GroupsSeeTheirOwnChannelsOnly) {
  Bench bench;
  const ValueId x = bench.input("x", {1, 2, 2}, {1, 2, 3, 4}),
                w = bench.input("w", {2, 1, 1}, {10, 100});
  EXPECT_THAT(bench.value(convolution(bench.builder, x, w, {.groups = 2})),
              ElementsAre(10, 20, 300, 400));
}

TEST(Convolution, HasTheOtherTwoAsGradients) {
  Bench bench;
  const ValueId x = bench.input("x", {1, 1, 4}, {1, 2, 3, 4}),
                w = bench.input("w", {1, 1, 3}, {1, 10, 100});
  const ValueId y = convolution(bench.builder, x, w, {}, "y");
  const Op forward = bench.graph.ops().back();
  const auto scope = bench.builder.scope("y.grad");
  find_operator("convolution").gradient(bench.builder, {bench.graph, forward, {y}, {true, true}});
  EXPECT_EQ(to_text(bench.graph, OpId{1}),
            "y.grad.x = convolution_grad_input(y, w) {dilation=[1], extents=[4], groups=1, "
            "high=[0], low=[0], stride=[1]}: f32[1,1,4]");
  EXPECT_EQ(to_text(bench.graph, OpId{2}),
            "y.grad.w = convolution_grad_weight(x, y) {dilation=[1], groups=1, high=[0], low=[0], "
            "stride=[1], window=[3]}: f32[1,1,3]");
}

TEST(Convolution, SamePlacesKeepExtents) {
  Bench bench;
  const ValueId x = bench.builder.input("x", f32({2, 3, 7, 8})),
                w = bench.builder.input("w", f32({5, 3, 3, 4}));
  EXPECT_EQ(bench.builder.shape(convolution(bench.builder, x, w, same_places({3, 4}))),
            (Shape{2, 5, 7, 8}));
  EXPECT_EQ(bench.builder.shape(
                convolution(bench.builder, x, w, same_places({3, 4}, {.dilation = {2, 1}}))),
            (Shape{2, 5, 7, 8}));
}

TEST(TransposedConvolution, LaysItsWindowDownAtEachElement) {
  Bench bench;
  const ValueId x = bench.input("x", {1, 1, 2}, {1, 2}),
                w = bench.input("w", {1, 1, 3}, {1, 10, 100});
  // The sum of 1 10 100 . . and . . 2 20 200.
  EXPECT_THAT(bench.value(transposed_convolution(bench.builder, x, w, {.stride = {2}})),
              ElementsAre(1, 10, 102, 20, 200));
  // There is one more element after the last, and one less before the first.
  EXPECT_THAT(
      bench.value(transposed_convolution(bench.builder, x, w, {.stride = {2}, .low = {1}}, {1})),
      ElementsAre(10, 102, 20, 200, 0));
}

TEST(Convolution, RefusesWhatDoesNotFit) {
  EXPECT_EQ(spatial_refusal("convolution", plain(1), {f32({8, 3, 5}), f32({4, 2, 3})}),
            "convolution 'body.op': x f32[8,3,5] does not fit w f32[4,2,3]\n"
            "  why: x is [batch, channels, space...], w [out channels, channels / groups, "
            "window...], and groups = 1\n"
            "  fix: check the attributes, or the layers that produce the operands");
  EXPECT_EQ(spatial_refusal("convolution", plain(1), {f32({8, 3, 2}), f32({4, 3, 3})}),
            "convolution 'body.op': a window of 3 does not fit dim 2 of x, which has 2\n"
            "  why: with padding of 0 and 0 the dim has 2 places\n"
            "  fix: pad more, use a smaller window, or check the layer that produces x");
  EXPECT_EQ(spatial_refusal("convolution", plain(2), {f32({8, 3, 5}), f32({4, 3, 3})}),
            "convolution 'body.op': stride [1, 1] does not fit 1 dims of space\n"
            "  why: it has an entry of at least 1 for each dim of space\n"
            "  fix: correct the list");
  EXPECT_EQ(spatial_refusal("convolution", plain(1, 3), {f32({8, 3, 5}), f32({4, 1, 3})}),
            "convolution 'body.op': x f32[8,3,5] does not fit w f32[4,1,3]\n"
            "  why: 4 channels do not fall into 3 equal groups\n"
            "  fix: check the attributes, or the layers that produce the operands");
  EXPECT_EQ(spatial_refusal("convolution", plain(0), {f32({8, 3}), f32({4, 3})}),
            "convolution 'body.op': x f32[8,3] has 2 dims\n"
            "  why: convolution takes two leading dims, then one to three dims of space\n"
            "  fix: reshape the operand");
  Attributes to_input = plain(1);
  to_input.set("extents", SpatialIntegers{9});
  EXPECT_EQ(spatial_refusal("convolution_grad_input", to_input, {f32({8, 4, 5}), f32({4, 3, 3})}),
            "convolution_grad_input 'body.op': y f32[8,4,5] does not fit w f32[4,3,3]\n"
            "  why: the window has the places [7]\n"
            "  fix: check the attributes, or the layers that produce the operands");
}

// ---- pooling ----

TEST(MaxPool, DividesPlacesAndItsGradientThePositionsThatNeedWholeWindows) {
  const Attributes attributes{{"window", SpatialIntegers{2}},
                              {"stride", SpatialIntegers{2}},
                              {"low", SpatialIntegers{0}},
                              {"high", SpatialIntegers{0}}};
  EXPECT_EQ(spatial_rule_text("max_pool", attributes, {f32({8, 3, 6})}),
            "([n, c, o0~(*2+0:+1)]) -> ([n, c, o0])");
  EXPECT_EQ(spatial_rule_text("max_pool_grad", attributes, {f32({8, 3, 6}), f32({8, 3, 3})}),
            "([n, c, i0~(-1:+1)], [n, c, i0~(/2-1:+0)]) -> ([n, c, i0]) {linear: 1}");
}

TEST(MaxPool, TakesNothingFromThePadding) {
  Bench bench;
  const ValueId x = bench.input("x", {1, 1, 4}, {-5, -3, -4, -7});
  EXPECT_THAT(bench.value(max_pool(bench.builder, x, {2})), ElementsAre(-3, -4));
  EXPECT_THAT(bench.value(max_pool(bench.builder, x, {2}, {.low = {1}, .high = {1}})),
              ElementsAre(-5, -3, -7));
}

TEST(MaxPool, GivesTheGradientToTheFirstOfEqualElements) {
  Bench bench;
  const ValueId x = bench.input("x", {1, 1, 4}, {1, 3, 3, 2});
  const ValueId y = max_pool(bench.builder, x, {3}, {.stride = {1}});
  const ValueId sum = bench.builder.reduce_sum(y, {0, 1, 2});
  const Op forward = bench.graph.ops().front();
  const ValueId flow = bench.input("flow", {1, 1, 2}, {5, 7});
  const auto gradients =
      find_operator("max_pool").gradient(bench.builder, {bench.graph, forward, {flow}, {true}});
  EXPECT_THAT(bench.value(sum), ElementsAre(6));
  EXPECT_THAT(bench.value(gradients[0].value()), ElementsAre(0, 12, 0, 0));
}

TEST(AveragePool, CountsThePaddingOrNot) {
  Bench bench;
  const ValueId x = bench.input("x", {1, 1, 3}, {2, 4, 6});
  EXPECT_THAT(bench.value(average_pool(bench.builder, x, {2}, {.low = {1}})), ElementsAre(2, 5));
  EXPECT_THAT(bench.value(average_pool(bench.builder, x, {2}, {.low = {1}}, true)),
              ElementsAre(1, 5));
}

TEST(Pools, RefusePaddingOfAWholeWindow) {
  const Attributes attributes{{"window", SpatialIntegers{2}},
                              {"stride", SpatialIntegers{1}},
                              {"low", SpatialIntegers{0}},
                              {"high", SpatialIntegers{2}}};
  EXPECT_EQ(spatial_refusal("max_pool", attributes, {f32({1, 1, 5})}),
            "max_pool 'body.op': padding of 0 and 2 around a window of 2\n"
            "  why: a window must see something at each place\n"
            "  fix: pad less than the window is wide");
}

TEST(GlobalPools, ReduceAllOfSpace) {
  Bench bench;
  const ValueId x = bench.input("x", {1, 2, 2, 2}, {1, 2, 3, 6, -1, -2, -3, -6});
  EXPECT_THAT(bench.value(global_average_pool(bench.builder, x)), ElementsAre(3, -3));
  EXPECT_THAT(bench.value(global_max_pool(bench.builder, x)), ElementsAre(6, -1));
}

// ---- resize ----

std::vector<double> resized(std::vector<double> x, int64_t extent, ResizeMode mode,
                            Corners corners) {
  Bench bench;
  const auto count = static_cast<int64_t>(x.size());
  return bench.value(resize(bench.builder, bench.input("x", {1, 1, count}, std::move(x)), {extent},
                            mode, corners));
}

TEST(Resize, OfCellsComparesCentres) {
  // Centres of 4 among 2: -1/4, 1/4, 3/4, 5/4.
  EXPECT_THAT(resized({0, 4}, 4, ResizeMode::kLinear, Corners::kHalfPixel),
              ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(resized({0, 4}, 4, ResizeMode::kNearest, Corners::kHalfPixel),
              ElementsAre(0, 0, 4, 4));
  // The centres of 2 among 4 are 1/2 and 5/2, half way between two.
  EXPECT_THAT(resized({1, 2, 3, 4}, 2, ResizeMode::kLinear, Corners::kHalfPixel),
              ElementsAre(1.5, 3.5));
  EXPECT_THAT(resized({1, 2, 3, 4}, 2, ResizeMode::kNearest, Corners::kHalfPixel),
              ElementsAre(1, 3));
}

TEST(Resize, OfPointsKeepsTheCorners) {
  // Points of 5 among 2: 0, 1/4, ..., 1.
  EXPECT_THAT(resized({0, 4}, 5, ResizeMode::kLinear, Corners::kAlign), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(resized({0, 4}, 5, ResizeMode::kNearest, Corners::kAlign),
              ElementsAre(0, 0, 0, 4, 4));
  EXPECT_THAT(resized({7, 4}, 1, ResizeMode::kLinear, Corners::kAlign), ElementsAre(7));
}

Attributes resizing(const char* mode, int64_t extent) {
  return {{"mode", mode}, {"corners", "half_pixel"}, {"extents", SpatialIntegers{extent}}};
}

TEST(Resize, IsDividedBetweenElementsThatItRepeats) {
  EXPECT_EQ(spatial_rule_text("resize", resizing("nearest", 12), {f32({2, 3, 4})}),
            "([n, c, s0]) -> ([n, c, s0*3]) {linear: 0}");
  EXPECT_EQ(spatial_rule_text("resize", resizing("linear", 4), {f32({2, 3, 12})}),
            "([n, c, s0*3]) -> ([n, c, s0]) {linear: 0}");
  // Position o is at (8 o - 8) / 24 of x, and reads the elements less than 1 away.
  EXPECT_EQ(spatial_rule_text("resize", resizing("linear", 12), {f32({2, 3, 4})}),
            "([n, c, o0~(*8/24-31:+15)]) -> ([n, c, o0]) {linear: 0}");
}

TEST(Resize, RefusesToMakeSomethingOfNothing) {
  EXPECT_EQ(spatial_refusal("resize", resizing("linear", 4), {f32({2, 3, 0})}),
            "resize 'body.op': dim 2 of [2,3,0] has no elements\n"
            "  why: resizing to 4 elements needs at least one\n"
            "  fix: check the layer that produces x");
  EXPECT_EQ(spatial_refusal("resize", resizing("cubic", 4), {f32({2, 3, 5})}),
            "resize 'body.op': mode 'cubic' is not known\n"
            "  why: there are 'nearest' and 'linear'\n"
            "  fix: use one of these");
}

}  // namespace
}  // namespace tessera
