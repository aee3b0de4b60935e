#include "compiler/rewrite/internal/fold.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "compiler/rewrite/testing/rewritten.h"
#include "ir/ops/operator_set.h"

namespace tessera {
namespace {

using rewrite_testing::rewritten;
using rewrite_testing::text_after;

/// The number of the constant that the value y of the ops becomes; none when it stays an op.
std::optional<double> folded(const std::string& ops) {
  const Rewritten made = rewritten(ops + "output y = y\n", {"fold"});
  const Graph& graph = made.made.graph;
  const Op& y = graph.op(*graph.find_op("y"));
  if (y.kind != "constant") return std::nullopt;
  return y.attributes.number("value");
}

std::string constant(const std::string& name, const std::string& dtype, const std::string& value) {
  return name + " = constant() {dtype=\"" + dtype + "\", shape=[3], value=" + value +
         "}: " + dtype + "[3]\n";
}

TEST(Fold, AnElementWiseOpOfConstantsIsAConstant) {
  EXPECT_EQ(text_after(constant("a", "f32", "2.0") + constant("b", "f32", "0.25") +
                           "c = mul(a, b): f32[3] @backward <- gradient a\n"
                           "output c = c\n",
                       {"fold", "dead-code"}),
            "c = constant() {dtype=\"f32\", shape=[3], value=0.5}: f32[3] @backward <- gradient a\n"
            "output c = c\n");
}

TEST(Fold, RoundsAsTheKernelDoes) {
  // 0.1f is 13421773 / 2^27, and 3 * 13421773 = 40265319 has 26 bits. The two f32 next to it are
  // 40265316 and 40265320 in units of 2^-27: 40265320 / 2^27 is the nearer, 0.30000001192...
  EXPECT_EQ(
      folded(constant("a", "f32", "0.1") + constant("b", "f32", "3.0") + "y = mul(a, b): f32[3]\n"),
      40265320.0 / 134217728.0);
  // 2^24 + 1 is between two f32 and is rounded to even.
  EXPECT_EQ(folded(constant("a", "f32", "16777216.0") + "y = add_scalar(a) {value=1.0}: f32[3]\n"),
            16777216.0);
  // i32 arithmetic wraps: 2^31 - 1 + 1 = -2^31.
  EXPECT_EQ(folded(constant("a", "i32", "2147483647.0") + constant("b", "i32", "1.0") +
                   "y = add(a, b): i32[3]\n"),
            -2147483648.0);
}

TEST(Fold, KeepsTheSignOfAZero) {
  const std::optional<double> y = folded(constant("a", "f32", "0.0") + "y = neg(a): f32[3]\n");
  ASSERT_TRUE(y.has_value());
  EXPECT_EQ(std::bit_cast<uint64_t>(*y), std::bit_cast<uint64_t>(-0.0));
}

TEST(Fold, MovesOfAConstantAreConstantsOfTheirShape) {
  EXPECT_EQ(text_after("a = constant() {dtype=\"i32\", shape=[], value=7.9}: i32[]\n"
                       "b = broadcast(a) {dims=[], shape=[2, 3]}: i32[2,3]\n"
                       "c = transpose(b) {permutation=[1, 0]}: i32[3,2]\n"
                       "y = reshape(c) {shape=[6]}: i32[6]\n"
                       "output y = y\n",
                       {"fold", "dead-code"}),
            "y = constant() {dtype=\"i32\", shape=[6], value=7.0}: i32[6]\n"
            "output y = y\n");
}

TEST(Fold, ComparesSelectsAndCasts) {
  EXPECT_EQ(folded(constant("a", "f32", "1.0") + constant("b", "f32", "2.0") +
                   "y = compare(a, b) {relation=\"lt\"}: bool[3]\n"),
            1.0);
  EXPECT_EQ(folded(constant("p", "bool", "0.0") + constant("a", "f32", "1.0") +
                   constant("b", "f32", "2.0") + "y = select(p, a, b): f32[3]\n"),
            2.0);
  EXPECT_EQ(folded(constant("a", "f32", "-2.5") + "y = cast(a) {dtype=\"i32\"}: i32[3]\n"), -2.0);
}

TEST(Fold, LeavesSumsWhoseBitsDependOnTheirDivision) {
  EXPECT_EQ(folded(constant("a", "f32", "0.1") + "y = reduce(a) {dims=[0], op=\"sum\"}: f32[]\n"),
            std::nullopt);
  EXPECT_EQ(folded(constant("a", "f32", "0.1") + "y = dot_general(a, a) {spec=\"a,a->\"}: f32[]\n"),
            std::nullopt);
}

TEST(Fold, LeavesNaNsAndWhatIsNotConstant) {
  EXPECT_EQ(folded(constant("a", "f32", "-1.0") + "y = sqrt(a): f32[3]\n"), std::nullopt);
  EXPECT_EQ(folded("input a: f32[3]\n" + constant("b", "f32", "1.0") + "y = add(a, b): f32[3]\n"),
            std::nullopt);
  EXPECT_EQ(folded(constant("a", "f32", "1.0") +
                   "s = constant() {dtype=\"i32\", shape=[], value=0.0}: i32[]\n"
                   "y = random_uniform(s) {key=5, shape=[]}: f32[]\n"),
            std::nullopt);
}

TEST(Fold, LeavesOpsWithRegions) {
  EXPECT_EQ(folded("c = constant() {dtype=\"bool\", shape=[], value=1.0}: bool[]\n"
                   "a = constant() {dtype=\"f32\", shape=[], value=2.0}: f32[]\n"
                   "y = if(c, a): f32[]\n"
                   "  region\n"
                   "    input x: f32[]\n"
                   "    z = neg(x): f32[]\n"
                   "    output result = z\n"
                   "  end\n"
                   "  region\n"
                   "    input u: f32[]\n"
                   "    v = tanh(u): f32[]\n"
                   "    output result = v\n"
                   "  end\n"),
            std::nullopt);
}

TEST(Fold, LeavesMarkedOpsAndWhatReadsThem) {
  const std::string text = constant("a", "f32", "2.0") + "b = neg(a): f32[3]\n" +
                           "c = neg(b): f32[3]\n" + "output c = c\n";
  EXPECT_EQ(text_after(text, {"fold"}, {{}, {false, true, false}}), text);
}

}  // namespace
}  // namespace tessera
