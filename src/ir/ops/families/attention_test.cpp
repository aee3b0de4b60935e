#include <cmath>

#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "ir/ops/testing/operator_check.h"

namespace tessera {
namespace {

const Attributes kCausal{{"causal", true}, {"scale", 0.5}};
const Attributes kFull{{"causal", false}, {"scale", 0.5}};

OpView attention_view(const Attributes& attributes, Shape q, Shape k, Shape v) {
  OpView view{"attn", attributes, {f32(q), f32(k), f32(v)}, {}};
  view.outputs = find_operator("attention").infer(view);
  return view;
}

std::string attention_refusal(Shape q, Shape k, Shape v) {
  try {
    attention_view(kFull, q, k, v);
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Attention, DividesBatchHeadsAndQueries) {
  const OpView view = attention_view(kFull, {2, 6, 4, 8}, {2, 5, 4, 8}, {2, 5, 4, 8});
  EXPECT_EQ(to_text(view.outputs[0]) + " " + to_text(view.outputs[1]), "f32[2,6,4,8] f32[2,4,6]");
  EXPECT_EQ(to_text(find_operator("attention").rule(view)),
            "([b, s, h, d], [b, t, h, d], [b, t, h, d]) -> ([b, s, h, d], [b, h, s]) {t: whole, d: "
            "whole}");
}

TEST(Attention, SumsTheGradientsOfKeysAndValuesOverTheQueries) {
  const Shape q{2, 6, 4, 8}, k{2, 5, 4, 8};
  OpView view{"attn.grad", kFull, {f32(q), f32(k), f32(k), f32(q), f32({2, 4, 6}), f32(q)}, {}};
  view.outputs = find_operator("attention_grad").infer(view);
  EXPECT_EQ(to_text(find_operator("attention_grad").rule(view)),
            "([b, s, h, d], [b, t, h, d], [b, t, h, d], [b, s, h, d], [b, h, s], [b, s, h, d]) -> "
            "([b, s, h, d], [b, t, h, d], [b, t, h, d]) "
            "{s: reduction sum, t: whole, d: whole}");
}

TEST(Attention, CountsTwoProductsOfWhatACausalMaskLeaves) {
  const Shape q{2, 6, 4, 8}, k{2, 5, 4, 8};
  EXPECT_EQ(find_operator("attention").work(attention_view(kFull, q, k, k)).flops.value(),
            4 * 2 * 4 * 6 * 5 * 8);
  // Half of a square of 5 x 5, and one further query that sees all 5 keys: 17.5 pairs.
  EXPECT_EQ(find_operator("attention").work(attention_view(kCausal, q, k, k)).flops.value(),
            4 * 2 * 4 * 17.5 * 8);
}

TEST(Attention, WeighsTheValuesOfTheKeysThatAQuerySees) {
  // The depth is 1 and the scale 1/2. The second query has the scores 0 and 2 ln 3 / 2 = ln 3, so
  // its weights are 1/4 and 3/4. The first query sees one key.
  const OpView view = attention_view(kCausal, {1, 2, 1, 1}, {1, 2, 1, 1}, {1, 2, 1, 1});
  const ReferenceTensor q{view.inputs[0], {1, 2}}, k{view.inputs[1], {0, std::log(3.0)}},
      v{view.inputs[2], {8, 4}};
  std::vector<ReferenceTensor> outputs{{view.outputs[0], {0, 0}}, {view.outputs[1], {0, 0}}};
  find_operator("attention").reference({view, {&q, &k, &v}, outputs});
  EXPECT_DOUBLE_EQ(outputs[0].values[0], 8);
  EXPECT_DOUBLE_EQ(outputs[0].values[1], 8.0 / 4 + 4 * 3.0 / 4);
  EXPECT_DOUBLE_EQ(outputs[1].values[0], 0);
  EXPECT_DOUBLE_EQ(outputs[1].values[1], std::log(4.0));
}

TEST(Attention, TellsItsKernelWhereItsQueriesBegin) {
  const OpView view = attention_view(kCausal, {2, 6, 4, 8}, {2, 5, 4, 8}, {2, 5, 4, 8});
  const std::vector<Split> factors{
      {2, 1, {}}, {6, 1, {{0, 2}}}, {5, 1, {}}, {4, 1, {}}, {8, 1, {}}};
  const KernelCall call = find_operator("attention").kernel(view, factors);
  ASSERT_EQ(call.ints.size(), 2u);
  EXPECT_EQ(call.ints[0].at({1}), 1);
  EXPECT_EQ(call.ints[1].at({1}), 3);
  EXPECT_EQ(call.reals, std::vector<double>{0.5});
}

TEST(Attention, RefusesKeysOfAnotherDepth) {
  EXPECT_EQ(
      attention_refusal({2, 6, 4, 8}, {2, 5, 4, 16}, {2, 5, 4, 8}),
      "attention 'attn': k f32[2,5,4,16] does not fit q f32[2,6,4,8]\n"
      "  why: q, k and v have the same batch, heads and depth, k and v the same number of keys\n"
      "  fix: give it the shape [2,5,4,8]");
}

TEST(Attention, RefusesOperandsWithoutHeads) {
  EXPECT_EQ(
      attention_refusal({2, 6, 32}, {2, 5, 32}, {2, 5, 32}),
      "attention 'attn': q f32[2,6,32] has 3 dims\n"
      "  why: attention takes q[batch, queries, heads, depth] and k, v[batch, keys, heads, depth]\n"
      "  fix: reshape it to four dims, one head for each part of the depth");
}

TEST(Attention, RefusesAGradientThroughItsLogSumExp) {
  Graph graph;
  Builder builder(graph);
  const ValueId q = builder.input("q", f32({1, 2, 1, 4}));
  const Builder::Attention result = builder.attention(q, q, q, false, 0.5, "attn");
  const Op forward = graph.ops().back();
  try {
    find_operator("attention")
        .gradient(builder,
                  {graph, forward, {std::nullopt, result.log_sum_exp}, {true, true, true}});
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "attention 'attn': a gradient flows into its log-sum-exp\n"
                 "  why: attention differentiates its first result only; the second serves its own "
                 "gradient\n"
                 "  fix: stop the gradient of the second result, or compose the attention of "
                 "dot_general, reduce and exp");
  }
}

}  // namespace
}  // namespace tessera
