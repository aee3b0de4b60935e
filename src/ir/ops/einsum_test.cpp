#include "ir/ops/einsum.h"

#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "base/testing/tensor_types.h"
#include "ir/ops/interpreter.h"

namespace tessera {
namespace {

/// A graph with one einsum of inputs a, b, ... of these shapes.
struct Written {
  Graph graph;
  ValueId result;

  Written(std::string_view spec, const std::vector<Shape>& shapes) {
    Builder builder(graph);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < shapes.size(); ++i)
      operands.push_back(builder.input(std::string(1, static_cast<char>('a' + i)), f32(shapes[i])));
    result = einsum(builder, spec, operands, "y");
  }
  std::string kinds() const {
    std::string text;
    for (const Op& op : graph.ops()) text += (text.empty() ? "" : " ") + op.kind;
    return text;
  }
  ReferenceTensor run(const std::vector<std::vector<double>>& values) const {
    ReferenceValues state;
    for (size_t i = 0; i < values.size(); ++i)
      state[graph.value(graph.inputs()[i]).name] = {graph.type(graph.inputs()[i]), values[i]};
    return interpret(graph, state).at(graph.value(result).name);
  }
};

std::string refusal(std::string_view spec, const std::vector<Shape>& shapes) {
  return error_testing::message_of(ExitCode::kBadData, [&] { Written(spec, shapes); });
}

TEST(OpsEinsum, OfTwoOperandsIsOneDotGeneral) {
  const Written y("bhqd, bhkd -> bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}});
  EXPECT_EQ(y.kinds(), "dot_general");
  EXPECT_EQ(y.graph.ops()[0].attributes.text("spec"), "bhqd,bhkd->bhqk");
  EXPECT_EQ(y.graph.ops()[0].name, "y");
}

TEST(OpsEinsum, WithoutAResultTakesTheLettersThatOccurOnce) {
  EXPECT_EQ(Written("jk,ij", {{3, 4}, {2, 3}}).graph.ops()[0].attributes.text("spec"), "jk,ij->ik");
}

TEST(OpsEinsum, SumsFirstWhatOneOperandAloneHas) {
  const Written y("ijk,j->i", {{2, 3, 2}, {3}});
  EXPECT_EQ(y.kinds(), "reduce dot_general");
  // The rows of sums over k are (1+2, 3+4, 5+6), (7+8, 9+10, 11+12); they are multiplied by (1, 10,
  // 100).
  EXPECT_EQ(y.run({{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {1, 10, 100}}).values,
            (std::vector<double>{3 + 70 + 1100, 15 + 190 + 2300}));
}

TEST(OpsEinsum, OfOneOperandReducesAndTransposes) {
  const Written y("ijk->ki", {{2, 2, 2}});
  EXPECT_EQ(y.kinds(), "reduce transpose");
  EXPECT_EQ(y.run({{1, 2, 3, 4, 5, 6, 7, 8}}).values,
            (std::vector<double>{1 + 3, 5 + 7, 2 + 4, 6 + 8}));
}

TEST(OpsEinsum, TakesTheDiagonalOfARepeatedLetter) {
  EXPECT_EQ(Written("ii->i", {{3, 3}}).run({{1, 2, 3, 4, 5, 6, 7, 8, 9}}).values,
            (std::vector<double>{1, 5, 9}));
  EXPECT_EQ(Written("ii->", {{3, 3}}).run({{1, 2, 3, 4, 5, 6, 7, 8, 9}}).values,
            (std::vector<double>{15}));
  EXPECT_EQ(Written("iji,j->i", {{2, 2, 2}, {2}}).run({{1, 2, 3, 4, 5, 6, 7, 8}, {1, 10}}).values,
            (std::vector<double>{1 + 30, 6 + 80}));  // a[i, j, i]: 1, 3 and 6, 8
}

TEST(OpsEinsum, MultipliesSeveralOperandsFromLeftToRight) {
  const Written y("ij,jk,kl->il", {{1, 2}, {2, 2}, {2, 1}});
  EXPECT_EQ(y.kinds(), "dot_general dot_general");
  // (1 2) [[1 2] [3 4]] = (7 10), times (1 100)
  EXPECT_EQ(y.run({{1, 2}, {1, 2, 3, 4}, {1, 100}}).values, (std::vector<double>{7 + 1000}));
}

TEST(OpsEinsum, KeepsALetterThatALaterOperandNeeds) {
  // For the sum over j of a[j] b[j] c[j], j must still be there after two operands.
  EXPECT_EQ(Written("j,j,j->", {{2}, {2}, {2}}).run({{1, 2}, {3, 4}, {5, 6}}).values,
            (std::vector<double>{1 * 3 * 5 + 2 * 4 * 6}));
}

TEST(OpsEinsum, RefusesAnEllipsis) {
  EXPECT_EQ(refusal("...i,i->...", {{2, 3}, {3}}),
            "einsum 'y': '.' in \"...i,i->...\" is not a letter\n"
            "  why: each dim has one letter; an ellipsis for several dims is not known here\n"
            "  fix: write a letter for every dim");
}

TEST(OpsEinsum, RefusesALetterOfTheResultThatNoOperandHas) {
  EXPECT_EQ(refusal("ij->ijk", {{2, 3}}),
            "einsum 'y': letter 'k' of the result in \"ij->ijk\" is in no operand\n"
            "  why: a dim of the result is one of an operand, once\n"
            "  fix: broadcast or write a diagonal with ops of their own");
}

TEST(OpsEinsum, RefusesALetterTwiceInTheResult) {
  EXPECT_EQ(refusal("i->ii", {{2}}),
            "einsum 'y': letter 'i' of the result in \"i->ii\" occurs twice\n"
            "  why: a dim of the result is one of an operand, once\n"
            "  fix: broadcast or write a diagonal with ops of their own");
}

TEST(OpsEinsum, RefusesExtentsThatDiffer) {
  EXPECT_EQ(refusal("ij,jk->ik", {{2, 3}, {4, 5}}),
            "einsum 'y': operand 1 f32[4,5] has 4 for 'j', which is 3 elsewhere\n"
            "  why: a letter stands for one extent; an extent of 1 is not broadcast\n"
            "  fix: correct the letters of \"ij,jk->ik\"");
}

TEST(OpsEinsum, RefusesAnotherNumberOfLettersOrOperands) {
  EXPECT_EQ(refusal("ij,j->i", {{2, 3}, {3, 1}}),
            "einsum 'y': operand 1 f32[3,1] does not fit 'j'\n"
            "  why: each dim has one letter\n"
            "  fix: write 2 letters, or check the layer that produces the operand");
  EXPECT_EQ(refusal("ij,j->i", {{2, 3}}),
            "einsum 'y': \"ij,j->i\" names 2 operands and 1 are given\n"
            "  why: operands are separated by commas\n"
            "  fix: write the dims of each operand");
}

}  // namespace
}  // namespace tessera
