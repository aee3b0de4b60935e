#include "ir/ops/builder.h"
#include "ir/ops/testing/operator_check.h"

namespace tessera {
namespace {

OpView dot_view(const Attributes& attributes, Shape a, Shape b) {
  OpView view{"ffn.up", attributes, {{DType::kF32, a}, {DType::kF32, b}}, {}};
  return view;
}

std::string dot_refusal(const std::string& spec, Shape a, Shape b) {
  const Attributes attributes{{"spec", spec}};
  try {
    find_operator("dot_general").infer(dot_view(attributes, a, b));
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

std::string rule_text(const std::string& spec, Shape a, Shape b) {
  const Attributes attributes{{"spec", spec}};
  OpView view = dot_view(attributes, a, b);
  view.outputs = find_operator("dot_general").infer(view);
  return to_text(find_operator("dot_general").rule(view));
}

TEST(DotGeneral, DividesEachLetterAsAFactor) {
  EXPECT_EQ(rule_text("mk,kn->mn", {8, 16}, {16, 4}),
            "([m, k], [k, n]) -> ([m, n]) {k: reduction sum} {linear: 0; 1}");
  EXPECT_EQ(rule_text("bse,ehd->bshd", {2, 3, 8}, {8, 2, 4}),
            "([b, s, e], [e, h, d]) -> ([b, s, h, d]) {e: reduction sum} {linear: 0; 1}");
}

TEST(DotGeneral, TakesABatchLetterAsParallel) {
  EXPECT_EQ(rule_text("bmk,bkn->bmn", {2, 8, 16}, {2, 16, 4}),
            "([b, m, k], [b, k, n]) -> ([b, m, n]) {k: reduction sum} {linear: 0; 1}");
}

TEST(DotGeneral, CountsAMultiplicationAndAnAdditionForEveryPointOfItsLoops) {
  const Attributes attributes{{"spec", "mk,kn->mn"}};
  OpView view = dot_view(attributes, {8, 16}, {16, 4});
  view.outputs = find_operator("dot_general").infer(view);
  const Work work = find_operator("dot_general").work(view);
  EXPECT_EQ(work.flops.value(), 2 * 8 * 16 * 4);
  EXPECT_EQ(work.bytes.value(), 4 * (8 * 16 + 16 * 4 + 8 * 4));
}

TEST(DotGeneral, ToleratesWhatTheRoundingsOfItsTermsExplain) {
  const operator_testing::OperatorCase given{.kind = "dot_general",
                                             .inputs = {{DType::kF32, {2}}, {DType::kF32, {2}}},
                                             .attributes = {{"spec", "k,k->"}}};
  const OpView view{"y", given.attributes, given.inputs, {{DType::kF32, {}}}};
  const ReferenceTensor a{given.inputs[0], {3, -4}}, b{given.inputs[1], {5, 6}};
  std::vector<ReferenceTensor> outputs{{view.outputs[0], {3 * 5 - 4 * 6}}};
  const double tolerance =
      find_operator("dot_general").tolerance({view, {&a, &b}, outputs}, 0).at(0);
  // Two terms and two more roundings, of 15 + 24 in all.
  EXPECT_GE(tolerance, 4 * 0x1p-24 * 39);
  EXPECT_LE(tolerance, 4 * 0x1p-24 * 39 * (1 + 0x1p-20));
}

TEST(DotGeneral, HasProductsAsGradients) {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.input("a", {DType::kF32, {8, 16}});
  const ValueId b = builder.input("b", {DType::kF32, {16, 4}});
  const ValueId y = builder.dot(a, b, "mk,kn->mn", "y");
  const Op forward = graph.ops().back();
  const auto scope = builder.scope("y.grad");
  find_operator("dot_general").gradient(builder, {graph, forward, {y}, {true, true}});
  EXPECT_EQ(to_text(graph, OpId{1}),
            "y.grad.a = dot_general(y, b) {spec=\"mn,kn->mk\"}: f32[8,16]");
  EXPECT_EQ(to_text(graph, OpId{2}),
            "y.grad.b = dot_general(a, y) {spec=\"mk,mn->kn\"}: f32[16,4]");
}

TEST(DotGeneral, GivesOnlyTheGradientsThatAreWanted) {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.input("a", {DType::kF32, {8, 16}});
  const ValueId y = builder.dot(a, a, "mk,nk->mn", "y");
  const Op forward = graph.ops().back();
  const auto gradients =
      find_operator("dot_general").gradient(builder, {graph, forward, {y}, {false, true}});
  EXPECT_FALSE(gradients[0].has_value());
  EXPECT_TRUE(gradients[1].has_value());
  EXPECT_EQ(graph.ops().size(), 2u);
}

TEST(DotGeneral, RefusesExtentsThatDiffer) {
  EXPECT_EQ(dot_refusal("mk,kn->mn", {8, 16}, {4, 16}),
            "dot_general 'ffn.up': a f32[8,16] does not fit b f32[4,16]\n"
            "  why: dim k of \"mk,kn->mn\" is 16 in a and 4 in b\n"
            "  fix: correct the spec if an operand is stored the other way, or check the size of "
            "the layer that produces it");
}

TEST(DotGeneral, RefusesALetterThatOccursOnce) {
  EXPECT_EQ(dot_refusal("mkx,kn->mn", {8, 16, 2}, {16, 4}),
            "dot_general 'ffn.up': letter x occurs once in \"mkx,kn->mn\"\n"
            "  why: every letter occurs in at least two of a, b and the result\n"
            "  fix: sum a dim of one operand by reduce, make a new dim by broadcast");
}

TEST(DotGeneral, RefusesALetterTwiceInOneOperand) {
  EXPECT_EQ(dot_refusal("kk,kn->kn", {16, 16}, {16, 4}),
            "dot_general 'ffn.up': 'kk' of \"kk,kn->kn\" repeats a letter\n"
            "  why: each letter is one dim of an operand\n"
            "  fix: give every dim of an operand a letter of its own");
}

TEST(DotGeneral, RefusesASpecThatIsNoProductOfTwo) {
  EXPECT_EQ(dot_refusal("mk->mk", {8, 16}, {8, 16}),
            "dot_general 'ffn.up': \"mk->mk\" is not a product of two operands\n"
            "  why: a spec lists the dims of a, of b and of the result\n"
            "  fix: write it as \"mk,kn->mn\"");
}

TEST(DotGeneral, RefusesASpecWithAnotherNumberOfDims) {
  EXPECT_EQ(dot_refusal("mk,kn->mn", {2, 8, 16}, {16, 4}),
            "dot_general 'ffn.up': a f32[2,8,16] does not fit 'mk'\n"
            "  why: the spec \"mk,kn->mn\" names 2 dims and the operand has 3\n"
            "  fix: give one letter for each dim");
}

}  // namespace
}  // namespace tessera
