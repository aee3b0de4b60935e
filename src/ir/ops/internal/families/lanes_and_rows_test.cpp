// Rules, offsets, work and refusals of the operators along a dim, of n-D indices and of groups.
// operator_cases has their values and gradients.
#include "base/testing/error.h"
#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "ir/ops/interpreter.h"
#include "ir/ops/testing/operator_check.h"

namespace tessera {
namespace {

using LanesAndRowsIntegers = std::vector<int64_t>;

struct Call {
  std::string kind;
  std::vector<TensorType> inputs;
  Attributes attributes = {};
};

OpView lanes_and_rows_view_of(const Call& call) {
  OpView view{"op", call.attributes, call.inputs, {}};
  view.outputs = find_operator(call.kind).infer(view);
  return view;
}

std::string lanes_and_rows_rule_text(const Call& call) {
  return to_text(find_operator(call.kind).rule(lanes_and_rows_view_of(call)));
}

std::string lanes_and_rows_refusal(const Call& call) {
  return error_testing::message_of(ExitCode::kBadData, [&] { lanes_and_rows_view_of(call); });
}

/// The kernel's integers at the second of two ranks that share factor `factor`.
std::vector<int64_t> ints_at_second(const Call& call, std::string_view factor) {
  const OpView view = lanes_and_rows_view_of(call);
  const ShardingRule rule = find_operator(call.kind).rule(view);
  std::vector<Split> splits;
  for (const Factor& each : rule.factors) splits.push_back({each.extent, 1, {}});
  splits.at(rule.find(factor)).axes = {{0, 2}};
  std::vector<int64_t> ints;
  for (const LocalInt& value : find_operator(call.kind).kernel(view, splits).ints)
    ints.push_back(value.at({1}));
  return ints;
}

// argmax, sort, top_k

TEST(Order, KeepsItsDimWhole) {
  EXPECT_EQ(lanes_and_rows_rule_text({"argmax", {f32({2, 8, 3})}, {{"dim", int64_t{1}}}}),
            "([d0, d1, d2]) -> ([d0, d2]) {d1: whole}");
  EXPECT_EQ(lanes_and_rows_rule_text(
                {"sort", {f32({2, 8})}, {{"dim", int64_t{1}}, {"descending", false}}}),
            "([d0, d1]) -> ([d0, d1], [d0, d1]) {d1: whole}");
  EXPECT_EQ(
      lanes_and_rows_rule_text({"top_k", {f32({2, 8})}, {{"dim", int64_t{1}}, {"k", int64_t{3}}}}),
      "([d0, d1]) -> ([d0, d1_out], [d0, d1_out]) {d1: whole, d1_out: whole}");
}

TEST(Order, RefusesTheLargestOfNothing) {
  EXPECT_EQ(lanes_and_rows_refusal({"argmax", {f32({2, 0})}, {{"dim", int64_t{1}}}}),
            "argmax 'op': dim 1 of x f32[2,0] is empty\n"
            "  why: of no elements none is the largest\n"
            "  fix: check the layer that produces x");
}

TEST(Order, RefusesMoreThanThereAre) {
  EXPECT_EQ(
      lanes_and_rows_refusal({"top_k", {f32({2, 8})}, {{"dim", int64_t{1}}, {"k", int64_t{9}}}}),
      "top_k 'op': k = 9 of dim 1 of x f32[2,8]\n"
      "  why: there are 8 elements to choose from\n"
      "  fix: use 0 to 8");
}

TEST(Order, RefusesADimThatIsNotThere) {
  EXPECT_EQ(
      lanes_and_rows_refusal({"sort", {f32({2, 8})}, {{"dim", int64_t{2}}, {"descending", false}}}),
      "sort 'op': dim 2 is not a dim of a tensor of rank 2\n"
      "  why: dims count from 0, the outermost\n"
      "  fix: use 0 to 1");
}

// cumsum, reverse

TEST(Scan, KeepsItsDimWholeAndPassesPartialSums) {
  EXPECT_EQ(
      lanes_and_rows_rule_text({"cumsum",
                                {f32({2, 8})},
                                {{"dim", int64_t{1}}, {"exclusive", false}, {"reverse", false}}}),
      "([d0, d1]) -> ([d0, d1]) {d1: whole} {linear: 0}");
  EXPECT_EQ(lanes_and_rows_rule_text({"reverse", {f32({2, 8})}, {{"dim", int64_t{0}}}}),
            "([d0, d1]) -> ([d0, d1]) {d0: whole} {linear: 0}");
}

TEST(Scan, RefusesBooleans) {
  EXPECT_EQ(
      lanes_and_rows_refusal({"cumsum",
                              {{DType::kBool, {4}}},
                              {{"dim", int64_t{0}}, {"exclusive", false}, {"reverse", false}}}),
      "cumsum 'op': x bool[4] has an element type that does not fit\n"
      "  why: cumsum takes f32 or i32 for x\n"
      "  fix: cast the operand first");
}

// take_along_dim, scatter_add_along_dim

TEST(TakeAlongDim, MasksTheDimOfItsTensorAndDividesTheRestInParallel) {
  const Call call{"take_along_dim", {f32({4, 50}), i32({4, 3})}, {{"dim", int64_t{1}}}};
  EXPECT_EQ(lanes_and_rows_rule_text(call),
            "([i0, rows], [i0, i1]) -> ([i0, i1]) {rows: masked reduction sum} {linear: 0}");
  EXPECT_EQ(
      ints_at_second(call, "rows"),
      (LanesAndRowsIntegers{1, 25}));  // the dim, and where the second of two parts of 50 begins
}

TEST(TakeAlongDim, RefusesIdsThatDifferElsewhere) {
  EXPECT_EQ(lanes_and_rows_refusal(
                {"take_along_dim", {f32({4, 50}), i32({3, 3})}, {{"dim", int64_t{1}}}}),
            "take_along_dim 'op': ids i32[3,3] do not fit x f32[4,50]\n"
            "  why: ids have the dims of x, and may differ from it in dim 1 only\n"
            "  fix: reshape or broadcast ids to the dims of x");
}

TEST(ScatterAddAlongDim, SumsOverItsIdsAlongTheDim) {
  EXPECT_EQ(lanes_and_rows_rule_text({"scatter_add_along_dim",
                                      {i32({4, 3}), f32({4, 3})},
                                      {{"dim", int64_t{1}}, {"extent", int64_t{50}}}}),
            "([i0, i1], [i0, i1]) -> ([i0, rows]) {i1: reduction sum} {linear: 1}");
}

TEST(ScatterAddAlongDim, RefusesUpdatesWithoutAnId) {
  EXPECT_EQ(lanes_and_rows_refusal({"scatter_add_along_dim",
                                    {i32({4, 3}), f32({4, 2})},
                                    {{"dim", int64_t{1}}, {"extent", int64_t{50}}}}),
            "scatter_add_along_dim 'op': updates f32[4,2] do not fit ids i32[4,3]\n"
            "  why: each id has one update\n"
            "  fix: reshape or broadcast the operand that is wrong");
}

// gather_nd, scatter_nd, scatter_add_nd

TEST(GatherNd, MasksTheDimsThatItsIndicesSpeakOf) {
  const Call call{"gather_nd", {f32({10, 20, 8}), i32({5, 2})}};
  EXPECT_EQ(to_text(lanes_and_rows_view_of(call).outputs[0]), "f32[5,8]");
  EXPECT_EQ(lanes_and_rows_rule_text(call),
            "([r0, r1, t0], [i0, k]) -> ([i0, t0]) {r0: masked reduction sum, r1: masked reduction "
            "sum, k: whole} {linear: 0}");
  EXPECT_EQ(ints_at_second(call, "r1"), (LanesAndRowsIntegers{0, 10}));
}

TEST(GatherNd, RefusesMoreIndicesThanDims) {
  EXPECT_EQ(lanes_and_rows_refusal({"gather_nd", {f32({10, 20}), i32({5, 3})}}),
            "gather_nd 'op': ids i32[5,3] do not fit the table f32[10,20]\n"
            "  why: the last dim of ids holds one index for each of the first dims of the table\n"
            "  fix: give ids a last dim of at most 2");
}

TEST(ScatterNd, DividesTheTableInParallelAndKeepsItsIdsWhole) {
  EXPECT_EQ(lanes_and_rows_rule_text({"scatter_nd", {f32({10, 8}), i32({5, 1}), f32({5, 8})}}),
            "([r0, t0], [i0, k], [i0, t0]) -> ([r0, t0]) {i0: whole, k: whole} {linear: 0, 2}");
}

TEST(ScatterNd, LetsTheLastOfSeveralUpdatesStayAndGivesTheOthersNoGradient) {
  Graph graph;
  Builder builder(graph);
  const ValueId table = builder.input("table", f32({3}));
  const ValueId ids = builder.input("ids", i32({3, 1}));
  const ValueId updates = builder.input("updates", f32({3}));
  const ValueId flow = builder.input("flow", f32({3}));
  builder.op1("scatter_nd", {table, ids, updates}, {}, "y");
  const Op forward = graph.ops().back();
  const auto gradients =
      find_operator("scatter_nd").gradient(builder, {graph, forward, {flow}, {true, false, true}});
  const ReferenceValues values = interpret(graph, {{"table", {f32({3}), {1, 2, 3}}},
                                                   {"ids", {i32({3, 1}), {2, 0, 2}}},
                                                   {"updates", {f32({3}), {7, 8, 9}}},
                                                   {"flow", {f32({3}), {10, 20, 30}}}});
  EXPECT_EQ(values.at("y").values, (std::vector<double>{8, 2, 9}));
  EXPECT_EQ(values.at(graph.value(*gradients[0]).name).values, (std::vector<double>{0, 20, 0}));
  EXPECT_EQ(values.at(graph.value(*gradients[2]).name).values,
            (std::vector<double>{0, 10, 30}));  // 7 was written over by 9
}

TEST(ScatterNd, RefusesUpdatesOfAnotherShape) {
  EXPECT_EQ(lanes_and_rows_refusal({"scatter_nd", {f32({10, 8}), i32({5, 1}), f32({5, 7})}}),
            "scatter_nd 'op': updates f32[5,7] do not fit: f32[5,8] are expected\n"
            "  why: updates have the dims of ids but the last, then those of a row of the table\n"
            "  fix: reshape or broadcast the updates");
}

TEST(ScatterAddNd, SumsOverItsIdsAndDividesTheRowsInParallel) {
  EXPECT_EQ(
      lanes_and_rows_rule_text(
          {"scatter_add_nd", {i32({5, 2}), f32({5, 8})}, {{"rows", LanesAndRowsIntegers{10, 20}}}}),
      "([i0, k], [i0, t0]) -> ([r0, r1, t0]) {i0: reduction sum, k: whole} {linear: 1}");
}

TEST(ScatterAddNd, RefusesAnotherNumberOfIndices) {
  EXPECT_EQ(
      lanes_and_rows_refusal(
          {"scatter_add_nd", {i32({5, 3}), f32({5, 8})}, {{"rows", LanesAndRowsIntegers{10, 20}}}}),
      "scatter_add_nd 'op': ids i32[5,3] do not fit rows [10,20]\n"
      "  why: the last dim of ids holds one index for each of the dims of rows\n"
      "  fix: give ids a last dim of 2, or correct the rows");
}

// grouped_matmul, grouped_outer

Call experts(bool transposed) {
  return {"grouped_matmul",
          {f32({64, 8}), f32(transposed ? Shape{4, 16, 8} : Shape{4, 8, 16}), i32({4})},
          {{"transposed", transposed}}};
}

TEST(GroupedMatmul, DividesRowsColumnsAndSumsInnerAndMasksGroups) {
  EXPECT_EQ(lanes_and_rows_rule_text(experts(false)),
            "([t, k], [g, k, n], [_]) -> ([t, n]) {g: masked reduction sum, k: reduction sum} "
            "{linear: 0; 1}");
  EXPECT_EQ(lanes_and_rows_rule_text(experts(true)),
            "([t, k], [g, n, k], [_]) -> ([t, n]) {g: masked reduction sum, k: reduction sum} "
            "{linear: 0; 1}");
}

TEST(GroupedMatmul, TellsItsKernelWhereRowsAndGroupsBegin) {
  EXPECT_EQ(ints_at_second(experts(false), "t"), (LanesAndRowsIntegers{0, 32, 0}));
  EXPECT_EQ(ints_at_second(experts(true), "g"), (LanesAndRowsIntegers{1, 0, 2}));
}

TEST(GroupedMatmul, CostsOneProductARow) {
  EXPECT_EQ(
      find_operator("grouped_matmul").work(lanes_and_rows_view_of(experts(false))).flops.value(),
      2.0 * 64 * 8 * 16);
}

TEST(GroupedMatmul, RefusesMatricesOfAnotherInnerDim) {
  EXPECT_EQ(
      lanes_and_rows_refusal(
          {"grouped_matmul", {f32({64, 8}), f32({4, 16, 8}), i32({4})}, {{"transposed", false}}}),
      "grouped_matmul 'op': x f32[64,8] does not fit w f32[4,16,8]\n"
      "  why: grouped_matmul takes x [T, K] and w [G, K, N] with the same K\n"
      "  fix: store w the other way round, or check the size of the layer that produces x");
}

TEST(GroupedMatmul, RefusesAnotherNumberOfSizes) {
  EXPECT_EQ(
      lanes_and_rows_refusal(
          {"grouped_matmul", {f32({64, 8}), f32({4, 8, 16}), i32({5})}, {{"transposed", false}}}),
      "grouped_matmul 'op': sizes i32[5] do not fit w f32[4,8,16]\n"
      "  why: each group has a matrix and a size\n"
      "  fix: give as many sizes as w has matrices");
}

TEST(GroupedOuter, SumsOverRowsAndDividesTheGroupsInParallel) {
  EXPECT_EQ(lanes_and_rows_rule_text({"grouped_outer", {f32({64, 8}), f32({64, 16}), i32({4})}}),
            "([t, k], [t, n], [_]) -> ([g, k, n]) {t: reduction sum} {linear: 0; 1}");
}

}  // namespace
}  // namespace tessera
