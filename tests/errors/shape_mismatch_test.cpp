// Mistakes in a model that is written in C++. The whole message is compared.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

TEST(Errors, AMatrixProductOfWrongShapesNamesTheOpBothTypesAndTheRule) {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.input("a", {DType::kF32, {8, 16}});
  const ValueId b = builder.input("b", {DType::kF32, {4, 16}});
  const auto scope = builder.scope("blocks.3.ffn");
  try {
    builder.dot(a, b, "mk,kn->mn", "up");
    FAIL() << "16 and 4 are contracted with each other";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "dot_general 'blocks.3.ffn.up': a f32[8,16] does not fit b f32[4,16]\n"
                 "  why: dim k of \"mk,kn->mn\" is 16 in a and 4 in b\n"
                 "  fix: correct the spec if an operand is stored the other way, or check the size "
                 "of the layer that produces it");
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
  }
}

TEST(Errors, AddingTensorsOfDifferentShapesNamesTheOpAndBothTypes) {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.input("a", {DType::kF32, {8, 16}});
  const ValueId b = builder.input("b", {DType::kF32, {16}});
  try {
    builder.add(a, b, "residual");
    FAIL() << "[8,16] and [16] are added without a broadcast";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "add 'residual': a f32[8,16] does not fit b f32[16]\n"
                 "  why: add works element by element on operands of one type and shape\n"
                 "  fix: broadcast or reshape the operand that is smaller, or check the layer that "
                 "produces it");
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
  }
}

}  // namespace
}  // namespace tessera
