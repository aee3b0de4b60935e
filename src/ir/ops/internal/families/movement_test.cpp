#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "ir/ops/interpreter.h"
#include "ir/ops/testing/operator_check.h"

namespace tessera {
namespace {

using MovementIntegers = std::vector<int64_t>;

/// Kind, operands and attributes of one op.
struct MovementCall {
  std::string kind;
  std::vector<TensorType> inputs;
  Attributes attributes;
};

OpView movement_view_of(const MovementCall& call) {
  OpView view{"head", call.attributes, call.inputs, {}};
  view.outputs = find_operator(call.kind).infer(view);
  return view;
}

std::string movement_rule_text(const MovementCall& call) {
  return to_text(find_operator(call.kind).rule(movement_view_of(call)));
}

std::string movement_refusal(const MovementCall& call) {
  try {
    movement_view_of(call);
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

MovementCall broadcast(Shape x, MovementIntegers shape, MovementIntegers dims) {
  return {"broadcast", {f32(x)}, {{"shape", shape}, {"dims", dims}}};
}
MovementCall reshape(Shape x, MovementIntegers shape) {
  return {"reshape", {f32(x)}, {{"shape", shape}}};
}
MovementCall slice(Shape x, MovementIntegers start, MovementIntegers limit,
                   MovementIntegers stride) {
  return {"slice", {f32(x)}, {{"start", start}, {"limit", limit}, {"stride", stride}}};
}
MovementCall pad(Shape x, MovementIntegers low, MovementIntegers shape, double value) {
  return {"pad", {f32(x)}, {{"low", low}, {"shape", shape}, {"value", value}}};
}

TEST(Broadcast, SharesTheFactorsOfTheDimsThatItKeeps) {
  EXPECT_EQ(movement_rule_text(broadcast({5}, {3, 5}, {1})), "([d1]) -> ([d0, d1]) {linear: 0}");
}

TEST(Broadcast, LeavesADimThatGrowsWhole) {
  EXPECT_EQ(movement_rule_text(broadcast({5, 1}, {5, 4}, {0, 1})),
            "([d0, _]) -> ([d0, d1]) {linear: 0}");
}

TEST(Broadcast, RefusesAnExtentThatCannotGrow) {
  EXPECT_EQ(movement_refusal(broadcast({5}, {3, 4}, {1})),
            "broadcast 'head': dims [1] do not place x f32[5] in [3,4]\n"
            "  why: dim 0 of x is 5, dim 1 of the result is 4; only an extent of 1 grows\n"
            "  fix: correct dims, or check the layer that produces x");
}

TEST(Broadcast, RefusesDimsOutOfOrder) {
  EXPECT_EQ(movement_refusal(broadcast({5, 3}, {3, 5}, {1, 0})),
            "broadcast 'head': dims [1, 0] do not place x f32[5,3] in [3,5]\n"
            "  why: dim i of x becomes dim dims[i] of the result, in ascending order\n"
            "  fix: list ascending dims of the result; transpose x first to change their order");
}

TEST(Reshape, DividesAMergedDimInUnitsOfItsInnerDimsOrInChunksOfItsOuterOnes) {
  EXPECT_EQ(movement_rule_text(reshape({4, 6}, {24})),
            "([d0, d0_1]) -> ([d0*6 or d0_1/4]) {linear: 0}");
  // There are two rows of three columns of four: a column is 4 of each of 2 chunks of 12.
  EXPECT_EQ(movement_rule_text(reshape({2, 3, 4}, {24})),
            "([d0, d0_1, d0_2]) -> ([d0*12 or d0_1*4/2 or d0_2/6]) {linear: 0}");
}

TEST(Reshape, DividesASplitDimInUnitsOfItsInnerDims) {
  EXPECT_EQ(movement_rule_text(reshape({8, 24}, {8, 4, 6})),
            "([d0, d1*6 or d2/4]) -> ([d0, d1, d2]) {linear: 0}");
}

TEST(Reshape, DividesRegroupedDimsBetweenCommonUnits) {
  // There are 2 common parts: 12 elements are 3 rows of 4 and 2 rows of 6.
  EXPECT_EQ(movement_rule_text(reshape({6, 4}, {4, 6})),
            "([d0*3, d1/2]) -> ([d0*2, d1/3]) {linear: 0}");
}

TEST(Reshape, LeavesDimsWithoutACommonUnitWhole) {
  EXPECT_EQ(movement_rule_text(reshape({2, 3}, {3, 2})), "([_, _]) -> ([_, _]) {linear: 0}");
}

TEST(Reshape, MatchesDimsAroundExtentsOfOne) {
  EXPECT_EQ(movement_rule_text(reshape({2, 1, 3}, {2, 3, 1})),
            "([d0, _, d1]) -> ([d0, d1, _]) {linear: 0}");
  EXPECT_EQ(movement_rule_text(reshape({5}, {1, 5, 1})), "([d1]) -> ([_, d1, _]) {linear: 0}");
}

TEST(Reshape, LeavesAnEmptyTensorWhole) {
  EXPECT_EQ(movement_rule_text(reshape({0, 4}, {2, 0})), "([_, _]) -> ([_, _]) {linear: 0}");
}

TEST(Reshape, RefusesAnotherNumberOfElements) {
  EXPECT_EQ(movement_refusal(reshape({4, 6}, {5, 5})),
            "reshape 'head': x f32[4,6] does not fit [5,5]\n"
            "  why: x has 24 elements and the shape 25\n"
            "  fix: check the extents of the shape, or the layer that produces x");
}

TEST(Transpose, CarriesItsFactorsAlong) {
  EXPECT_EQ(movement_rule_text(
                {"transpose", {f32({2, 3, 4})}, {{"permutation", MovementIntegers{2, 0, 1}}}}),
            "([d0, d1, d2]) -> ([d2, d0, d1]) {linear: 0}");
}

TEST(Transpose, RefusesAnIncompletePermutation) {
  EXPECT_EQ(
      movement_refusal({"transpose", {f32({2, 3})}, {{"permutation", MovementIntegers{0, 0}}}}),
      "transpose 'head': permutation [0, 0] is not an order of the dims of x f32[2,3]\n"
      "  why: dim i of the result is dim permutation[i] of x, each of them once\n"
      "  fix: list each number from 0 to 1 once");
}

TEST(Slice, TakesAWindowOfEachDimThatItDoesNotTakeWhole) {
  // Row i of the result is row 2 + 3 i of x.
  EXPECT_EQ(movement_rule_text(slice({5, 7}, {0, 2}, {5, 6}, {1, 1})),
            "([d0, d1~(+2:+2)]) -> ([d0, d1]) {linear: 0}");
  // The second of three chunks is divided as the chunks are, or as a window of the whole.
  EXPECT_EQ(movement_rule_text(slice({5, 6}, {0, 2}, {5, 4}, {1, 1})),
            "([d0, d1_chunk/3 or d1~(+2:+2)]) -> ([d0, d1_chunk or d1]) {linear: 0}");
  EXPECT_EQ(movement_rule_text(slice({5, 9}, {0, 2}, {5, 9}, {1, 3})),
            "([d0, d1~(*3+2:+2)]) -> ([d0, d1]) {linear: 0}");
}

TEST(Slice, RefusesAWindowOutsideTheDim) {
  EXPECT_EQ(
      movement_refusal(slice({5}, {2}, {6}, {1})),
      "slice 'head': window 2:6:1 is not inside dim 0 of x f32[5]\n"
      "  why: a window start:limit:stride has 0 <= start <= limit <= 5 and a stride of at least 1\n"
      "  fix: correct the window, or check the layer that produces x");
}

TEST(Slice, SpreadsTheGradientOfAStrideAmongZeros) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({7}));
  const ValueId flow = builder.input("flow", f32({2}));
  builder.slice(x, {1}, {6}, {3}, "y");
  const Op forward = graph.ops().back();
  const auto gradients = find_operator("slice").gradient(builder, {graph, forward, {flow}, {true}});
  const ReferenceValues values = interpret(
      graph, {{"x", {f32({7}), std::vector<double>(7, 0)}}, {"flow", {f32({2}), {5, 6}}}});
  // Elements 1 and 4 were taken.
  EXPECT_EQ(values.at(graph.value(gradients[0].value()).name).values,
            (std::vector<double>{0, 5, 0, 0, 6, 0, 0}));
}

TEST(Slice, RefusesTheGradientOfAStrideOfATensorOfEightDims) {
  Graph graph;
  Builder builder(graph);
  const std::vector<int64_t> zeros(8, 0), twos(8, 2);
  const ValueId x = builder.input("x", f32(Dims::filled(8, 2)));
  const ValueId y = builder.slice(x, zeros, twos, twos, "y");
  const Op forward = graph.ops().back();
  try {
    find_operator("slice").gradient(builder, {graph, forward, {y}, {true}});
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "slice 'y': no gradient for strides [2, 2, 2, 2, 2, 2, 2, 2] of x f32[2,2,2,2,2,2,2,2]\n"
        "  why: the gradient of a stride takes one more dim for a while, and a tensor has at most "
        "8\n"
        "  fix: reshape x to fewer dims before slicing");
  }
}

TEST(Pad, TakesAWindowThatEndsWhereTheOperandDoes) {
  EXPECT_EQ(movement_rule_text(pad({5, 3}, {0, 2}, {5, 7}, 0)),
            "([d0, d1~(-2:-2)]) -> ([d0, d1]) {linear: 0}");
  const Window window{7, 3, 1, 1, -2, -2};
  EXPECT_EQ(window.apply({0, 3}),
            (Range{0, 1}));  // columns 0 and 1 are padding, 2 is the first of x
  EXPECT_EQ(window.apply({3, 7}), (Range{1, 3}));  // columns 3 and 4 are the last of x
}

TEST(Pad, IsNotLinearWithAValue) {
  EXPECT_EQ(movement_rule_text(pad({5, 3}, {0, 2}, {5, 7}, 1)), "([d0, d1~(-2:-2)]) -> ([d0, d1])");
}

TEST(Pad, RefusesAListThatIsTooShort) {
  EXPECT_EQ(movement_refusal(pad({5, 3}, {0}, {5, 7}, 0)),
            "pad 'head': low has 1 entries for x f32[5,3]\n"
            "  why: low says something about every dim of x\n"
            "  fix: give 2 entries");
}

TEST(Concat, IsJointlyLinearAndTakesAWindowOfTheJointForEachPart) {
  EXPECT_EQ(movement_rule_text({"concat", {f32({5, 2}), f32({5, 3})}, {{"dim", int64_t{1}}}}),
            "([d0, d1~(+0:+0)], [d0, d1~(-2:-2)]) -> ([d0, d1]) {linear: 0, 1}");
}

TEST(Concat, RefusesPartsThatDifferElsewhere) {
  EXPECT_EQ(movement_refusal({"concat", {f32({5, 2}), f32({4, 3})}, {{"dim", int64_t{1}}}}),
            "concat 'head': part 1 f32[4,3] does not fit part 0 f32[5,2]\n"
            "  why: parts have one element type and differ in dim 1 only\n"
            "  fix: check the layers that produce the parts");
}

}  // namespace
}  // namespace tessera
