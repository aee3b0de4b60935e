#include "base/testing/tensor_types.h"
#include "ir/ops/testing/operator_check.h"

namespace tessera {
namespace {

OpView gather_view_of(const Attributes& attributes, std::string_view kind, TensorType a,
                      TensorType b) {
  OpView view{"embed", attributes, {a, b}, {}};
  view.outputs = find_operator(kind).infer(view);
  return view;
}

std::string gather_refusal(const Attributes& attributes, std::string_view kind, TensorType a,
                           TensorType b) {
  try {
    gather_view_of(attributes, kind, a, b);
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Gather, DividesTheRowsByAMaskAndTheRestInParallel) {
  const Attributes none;
  const OpView view = gather_view_of(none, "gather", f32({50, 8}), i32({2, 3}));
  EXPECT_EQ(to_text(view.outputs[0]), "f32[2,3,8]");
  EXPECT_EQ(to_text(find_operator("gather").rule(view)),
            "([rows, t0], [i0, i1]) -> ([i0, i1, t0]) {rows: masked reduction sum} {linear: 0}");
}

TEST(Gather, TellsItsKernelWhereItsRowsBegin) {
  const Attributes none;
  const OpView view = gather_view_of(none, "gather", f32({50, 8}), i32({2}));
  const std::vector<Split> factors{{50, 1, {{0, 4}}}, {2, 1, {}}, {8, 1, {}}};
  const KernelCall call = find_operator("gather").kernel(view, factors);
  ASSERT_EQ(call.ints.size(), 1u);
  // Four parts of 50 rows: 13, 13, 12, 12.
  EXPECT_EQ(call.ints[0].at({0}), 0);
  EXPECT_EQ(call.ints[0].at({1}), 13);
  EXPECT_EQ(call.ints[0].at({3}), 38);
}

TEST(Gather, ReadsOnlyTheRowsThatItNeeds) {
  const Attributes none;
  const Work work =
      find_operator("gather").work(gather_view_of(none, "gather", f32({50000, 8}), i32({2})));
  EXPECT_EQ(work.flops.value(), 0);
  EXPECT_EQ(work.bytes.value(), 2 * 4 + 2 * (2 * 8 * 4));
}

TEST(Gather, RefusesIdsThatAreNoIntegers) {
  EXPECT_EQ(gather_refusal({}, "gather", f32({50, 8}), f32({2})),
            "gather 'embed': ids f32[2] has an element type that does not fit\n"
            "  why: gather takes i32 for ids\n"
            "  fix: cast the operand first");
}

TEST(Gather, RefusesATableWithoutRows) {
  EXPECT_EQ(gather_refusal({}, "gather", f32({}), i32({2})),
            "gather 'embed': table f32[] has no rows\n"
            "  why: gather takes rows of dim 0 of a table\n"
            "  fix: give a table of at least one dim");
}

TEST(ScatterAdd, SumsOverTheIdsAndDividesTheRowsInParallel) {
  const Attributes rows{{"rows", int64_t{50}}};
  const OpView view = gather_view_of(rows, "scatter_add", i32({2, 3}), f32({2, 3, 8}));
  EXPECT_EQ(to_text(view.outputs[0]), "f32[50,8]");
  EXPECT_EQ(to_text(find_operator("scatter_add").rule(view)),
            "([i0, i1], [i0, i1, t0]) -> ([rows, t0]) {i0: reduction sum, i1: reduction sum} "
            "{linear: 1}");
}

TEST(ScatterAdd, RefusesUpdatesWithoutAnId) {
  EXPECT_EQ(gather_refusal({{"rows", int64_t{50}}}, "scatter_add", i32({2, 3}), f32({2, 4, 8})),
            "scatter_add 'embed': updates f32[2,4,8] do not fit ids i32[2,3]\n"
            "  why: each id has one update: the dims of updates begin with those of ids\n"
            "  fix: reshape or broadcast the operand that is wrong");
}

}  // namespace
}  // namespace tessera
