#include "compiler/rewrite/internal/algebra.h"

#include <gtest/gtest.h>

#include "compiler/rewrite/testing/rewritten.h"

namespace tessera {
namespace {

using rewrite_testing::text_after;

/// `before` and its output y, whose op reads what the rules work on.
constexpr std::string_view kInputs =
    "input x: f32[2,3]\n"
    "input i: i32[2,3]\n"
    "input b: bool[2,3]\n"
    "one = constant() {dtype=\"f32\", shape=[2, 3], value=1.0}: f32[2,3]\n"
    "zero = constant() {dtype=\"f32\", shape=[2, 3], value=0.0}: f32[2,3]\n"
    "minus_zero = constant() {dtype=\"f32\", shape=[2, 3], value=-0.0}: f32[2,3]\n"
    "no = constant() {dtype=\"i32\", shape=[2, 3], value=0.0}: i32[2,3]\n"
    "single = constant() {dtype=\"i32\", shape=[2, 3], value=1.0}: i32[2,3]\n"
    "yes = constant() {dtype=\"bool\", shape=[2, 3], value=1.0}: bool[2,3]\n"
    "never = constant() {dtype=\"bool\", shape=[2, 3], value=0.0}: bool[2,3]\n";

/// The first operand of the op y after `ops`, which end with the value t: what y reads instead of
/// t.
std::string read_instead(const std::string& ops, const std::string& kind = "exp") {
  const Rewritten made =
      rewrite_testing::rewritten(std::string(kInputs) + ops + "y = " + kind + "(t): " +
                                      (kind == "exp"   ? "f32[2,3]\n"
                                       : kind == "not" ? "bool[2,3]\n"
                                                       : "i32[2,3]\n") +
                                      "output y = y\n",
                                  {"algebra"});
  const Graph& graph = made.made.graph;
  return graph.value(graph.op(*graph.find_op("y")).inputs[0]).name;
}

TEST(Algebra, FactorsOfOneVanish) {
  EXPECT_EQ(read_instead("t = mul(x, one): f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = mul(one, x): f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = mul_scalar(x) {value=1.0}: f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = mul(i, single): i32[2,3]\n", "abs"), "i");
  EXPECT_EQ(read_instead("t = mul(x, zero): f32[2,3]\n"), "t");  // of infinity it is NaN
}

// -0.0 + 0.0 is 0.0, which has another sign; -0.0 + -0.0 and -0.0 - 0.0 are -0.0.
TEST(Algebra, AddedZerosVanishOnlyWhereTheSignOfAZeroIsKept) {
  EXPECT_EQ(read_instead("t = add(x, zero): f32[2,3]\n"), "t");
  EXPECT_EQ(read_instead("t = add_scalar(x) {value=0.0}: f32[2,3]\n"), "t");
  EXPECT_EQ(read_instead("t = sub(x, minus_zero): f32[2,3]\n"), "t");
  EXPECT_EQ(read_instead("t = add(x, minus_zero): f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = add(minus_zero, x): f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = add_scalar(x) {value=-0.0}: f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = sub(x, zero): f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = sub(zero, x): f32[2,3]\n"), "t");
  EXPECT_EQ(read_instead("t = add(i, no): i32[2,3]\n", "abs"), "i");
  EXPECT_EQ(read_instead("t = sub(i, no): i32[2,3]\n", "abs"), "i");
}

TEST(Algebra, QuotientsAndPowersStay) {
  EXPECT_EQ(read_instead("t = div(x, one): f32[2,3]\n"), "t");
  EXPECT_EQ(read_instead("t = pow_scalar(x) {value=1.0}: f32[2,3]\n"), "t");
  EXPECT_EQ(read_instead("t = sub(x, x): f32[2,3]\n"), "t");  // NaN of infinity
}

TEST(Algebra, NeutralTruthValuesVanish) {
  EXPECT_EQ(read_instead("t = and(b, yes): bool[2,3]\n", "not"), "b");
  EXPECT_EQ(read_instead("t = or(never, b): bool[2,3]\n", "not"), "b");
  EXPECT_EQ(read_instead("t = and(b, never): bool[2,3]\n", "not"), "t");
}

TEST(Algebra, WhatIsDoneTwiceIsUndone) {
  EXPECT_EQ(read_instead("s = neg(x): f32[2,3]\nt = neg(s): f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("s = transpose(x) {permutation=[1, 0]}: f32[3,2]\n"
                         "t = transpose(s) {permutation=[1, 0]}: f32[2,3]\n"),
            "x");
  EXPECT_EQ(read_instead("s = reshape(x) {shape=[6]}: f32[6]\n"
                         "t = reshape(s) {shape=[2, 3]}: f32[2,3]\n"),
            "x");
}

TEST(Algebra, OpsThatMoveNoElementVanish) {
  EXPECT_EQ(read_instead("t = stop_gradient(x): f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = cast(x) {dtype=\"f32\"}: f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = cast(i) {dtype=\"f32\"}: f32[2,3]\n"), "t");
  EXPECT_EQ(read_instead("t = reshape(x) {shape=[2, 3]}: f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = transpose(x) {permutation=[0, 1]}: f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = broadcast(x) {dims=[0, 1], shape=[2, 3]}: f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = slice(x) {limit=[2, 3], start=[0, 0], stride=[1, 1]}: f32[2,3]\n"),
            "x");
  EXPECT_EQ(read_instead("t = pad(x) {low=[0, 0], shape=[2, 3], value=7.0}: f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = pad(x) {low=[1, 0], shape=[2, 3], value=7.0}: f32[2,3]\n"), "t");
  EXPECT_EQ(read_instead("t = concat(x) {dim=0}: f32[2,3]\n"), "x");
  EXPECT_EQ(read_instead("t = select(b, x, x): f32[2,3]\n"), "x");
}

TEST(Algebra, TwoMovesBecomeOne) {
  EXPECT_EQ(text_after("input x: f32[2,3,4]\n"
                       "s = transpose(x) {permutation=[1, 2, 0]}: f32[3,4,2]\n"
                       "y = transpose(s) {permutation=[0, 2, 1]}: f32[3,2,4]\n"
                       "output y = y\n",
                       {"algebra"}),
            // Dim 1 of y is dim 2 of s, which is dim 0 of x.
            "input x: f32[2,3,4]\n"
            "y = transpose(x) {permutation=[1, 0, 2]}: f32[3,2,4]\n"
            "output y = y\n");
  EXPECT_EQ(text_after("input x: f32[3]\n"
                       "s = broadcast(x) {dims=[1], shape=[2, 3]}: f32[2,3]\n"
                       "y = broadcast(s) {dims=[0, 2], shape=[2, 4, 3]}: f32[2,4,3]\n"
                       "output y = y\n",
                       {"algebra"}),
            // Dim 0 of x is dim 1 of s, which is dim 2 of y.
            "input x: f32[3]\n"
            "y = broadcast(x) {dims=[2], shape=[2, 4, 3]}: f32[2,4,3]\n"
            "output y = y\n");
  EXPECT_EQ(text_after("input x: f32[2,3,4]\n"
                       "r = reshape(x) {shape=[6, 4]}: f32[6,4]\n"
                       "s = reshape(r) {shape=[24]}: f32[24]\n"
                       "y = reshape(s) {shape=[4, 6]}: f32[4,6]\n"
                       "output y = y\n",
                       {"algebra"}),
            "input x: f32[2,3,4]\n"
            "y = reshape(x) {shape=[4, 6]}: f32[4,6]\n"
            "output y = y\n");
}

void expect_kept(const std::string& text, const RewriteBounds& bounds = {}) {
  EXPECT_EQ(text_after(text, {"algebra"}, bounds), text);
}

// With y made of x, both s and x would be alive.
TEST(Algebra, AMoveThatIsReadElsewhereStays) {
  expect_kept(
      "input x: f32[2,3]\n"
      "s = transpose(x) {permutation=[1, 0]}: f32[3,2]\n"
      "t = transpose(s) {permutation=[1, 0]}: f32[2,3]\n"
      "y = exp(t): f32[2,3]\n"
      "z = exp(s): f32[3,2]\n"
      "output y = y\n"
      "output z = z\n");
}

TEST(Algebra, PairsOfTwoRolesOrStagesStay) {
  expect_kept(
      "input x: f32[6]\n"
      "s = reshape(x) {shape=[2, 3]}: f32[2,3]\n"
      "y = reshape(s) {shape=[3, 2]}: f32[3,2] @backward\n"
      "output y = y\n");
  expect_kept(
      "input x: f32[6]\n"
      "s = reshape(x) {shape=[2, 3]}: f32[2,3]\n"
      "y = reshape(s) {shape=[3, 2]}: f32[3,2]\n"
      "output y = y\n",
      {{0, 1}, {}});
}

TEST(Algebra, MarkedOpsResultsAndCopiesOfChangingVariablesStay) {
  const std::string text =
      "input x: f32[4]\n"
      "t = stop_gradient(x): f32[4]\n"
      "y = exp(t): f32[4]\n"
      "output y = y\n";
  expect_kept(text, {{}, {true, false}});
  expect_kept(
      "input x: f32[4]\n"
      "y = stop_gradient(x): f32[4]\n"
      "output y = y\n");
  expect_kept(
      "variable w: f32[4] = constant(1.0)\n"
      "old = stop_gradient(w): f32[4]\n"
      "w.next = exp(w): f32[4]\n"
      "change = sub(w.next, old): f32[4]\n"
      "output change = change\n"
      "next w = w.next\n");
}

}  // namespace
}  // namespace tessera
