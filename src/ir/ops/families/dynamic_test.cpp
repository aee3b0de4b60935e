#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "ir/ops/interpreter.h"
#include "ir/ops/testing/operator_check.h"

namespace tessera {
namespace {

using DynamicIntegers = std::vector<int64_t>;

OpView dynamic_view_of(std::string_view kind, const Attributes& attributes,
                       std::vector<TensorType> inputs) {
  OpView view{"cache", attributes, std::move(inputs), {}};
  view.outputs = find_operator(kind).infer(view);
  return view;
}

std::string dynamic_refusal(std::string_view kind, const Attributes& attributes,
                            std::vector<TensorType> inputs) {
  try {
    dynamic_view_of(kind, attributes, std::move(inputs));
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(DynamicSlice, MasksADividedDimAndDividesItsWindowInParallel) {
  const Attributes attributes{{"dims", DynamicIntegers{1}}, {"sizes", DynamicIntegers{3}}};
  EXPECT_EQ(
      to_text(find_operator("dynamic_slice")
                  .rule(dynamic_view_of("dynamic_slice", attributes, {f32({5, 8}), i32({})}))),
      "([d0, d1], []) -> ([d0, d1_out]) {d1: masked reduction sum} {linear: 0}");
}

TEST(DynamicSlice, RefusesAWindowThatIsTooLarge) {
  EXPECT_EQ(dynamic_refusal("dynamic_slice",
                            {{"dims", DynamicIntegers{1}}, {"sizes", DynamicIntegers{9}}},
                            {f32({5, 8}), i32({})}),
            "dynamic_slice 'cache': sizes [9] do not fit x f32[5,8]\n"
            "  why: the window has one extent for each of dims [1], none larger than that of x\n"
            "  fix: correct the sizes, or check the layer that produces x");
}

TEST(DynamicSlice, RefusesAStartThatIsNotOneNumber) {
  EXPECT_EQ(dynamic_refusal("dynamic_slice",
                            {{"dims", DynamicIntegers{1}}, {"sizes", DynamicIntegers{2}}},
                            {f32({5, 8}), i32({1})}),
            "dynamic_slice 'cache': start 0 i32[1] is not i32[]\n"
            "  why: a window begins at one whole number in each of dims\n"
            "  fix: cast it to i32 and reshape it to no dims");
}

TEST(DynamicSlice, RefusesDimsOutOfOrder) {
  EXPECT_EQ(dynamic_refusal("dynamic_slice",
                            {{"dims", DynamicIntegers{1, 0}}, {"sizes", DynamicIntegers{2, 2}}},
                            {f32({5, 8}), i32({}), i32({})}),
            "dynamic_slice 'cache': dims [1, 0] do not fit x f32[5,8]\n"
            "  why: dims are those in which the window begins at an operand, in ascending order, "
            "counted from 0\n"
            "  fix: list each such dim of x once");
}

TEST(DynamicUpdate, DividesTheTensorInEveryDimAndItsUpdateWhereItIsAsLarge) {
  const Attributes attributes{{"dims", DynamicIntegers{1}}};
  EXPECT_EQ(to_text(find_operator("dynamic_update")
                        .rule(dynamic_view_of("dynamic_update", attributes,
                                              {f32({2, 128, 8}), f32({2, 1, 8}), i32({})}))),
            "([d0, d1, d2], [d0, d1_update, d2], []) -> ([d0, d1, d2]) {d1_update: whole} {linear: "
            "0, 1}");
}

TEST(DynamicUpdate, TellsItsKernelWhereItsPartBegins) {
  const Attributes attributes{{"dims", DynamicIntegers{0}}};
  const OpView view = dynamic_view_of("dynamic_update", attributes, {f32({10}), f32({1}), i32({})});
  const KernelCall call = find_operator("dynamic_update")
                              .kernel(view, std::vector<Split>{{10, 1, {{0, 4}}}, {1, 1, {}}});
  ASSERT_EQ(call.ints.size(), 2u);
  EXPECT_EQ(call.ints[0].at({2}), 0);  // the dim
  EXPECT_EQ(call.ints[1].at({2}), 6);  // four parts of 10: 3, 3, 2, 2
}

TEST(DynamicUpdate, CostsItsUpdateAndNotTheTensor) {
  const Attributes attributes{{"dims", DynamicIntegers{1}}};
  const Work work = find_operator("dynamic_update")
                        .work(dynamic_view_of("dynamic_update", attributes,
                                              {f32({2, 128}), f32({2, 1}), i32({})}));
  EXPECT_EQ(work.bytes.value(), 2 * (2 * 4));
}

TEST(DynamicUpdate, RefusesAnUpdateThatIsSmallerElsewhere) {
  EXPECT_EQ(dynamic_refusal("dynamic_update", {{"dims", DynamicIntegers{1}}},
                            {f32({5, 8}), f32({4, 2}), i32({})}),
            "dynamic_update 'cache': update f32[4,2] does not fit x f32[5,8]\n"
            "  why: an update has the element type and the dims of x, and may be smaller in dims "
            "[1] only\n"
            "  fix: reshape the update, or list the dims in which it is smaller");
}

TEST(DynamicUpdate, WritesOnePositionOfACache) {
  Graph graph;
  Builder builder(graph);
  const ValueId cache = builder.input("cache", f32({2, 3}));
  const ValueId row = builder.input("row", f32({2, 1}));
  const ValueId position = builder.input("position", i32({}));
  const ValueId next = builder.dynamic_update(cache, row, {position}, {1}, "next");
  builder.dynamic_slice(next, {position}, {1}, {1}, "read");
  const ReferenceValues values = interpret(graph, {{"cache", {f32({2, 3}), {1, 2, 3, 4, 5, 6}}},
                                                   {"row", {f32({2, 1}), {7, 8}}},
                                                   {"position", {i32({}), {2}}}});
  EXPECT_EQ(values.at("next").values, (std::vector<double>{1, 2, 7, 4, 5, 8}));
  EXPECT_EQ(values.at("read").values, (std::vector<double>{7, 8}));
}

}  // namespace
}  // namespace tessera
