#include "compiler/rewrite/internal/common_subexpressions.h"

#include <gtest/gtest.h>

#include "compiler/rewrite/testing/rewritten.h"

namespace tessera {
namespace {

using rewrite_testing::rewritten;
using rewrite_testing::text_after;

/// Nothing of the text is merged.
void expect_unchanged(const std::string& text, const RewriteBounds& bounds = {}) {
  EXPECT_EQ(text_after(text, {"cse"}, bounds), text);
}

TEST(CommonSubexpressions, ARepeatedOpIsDroppedAndItsReadersReadTheFirst) {
  EXPECT_EQ(text_after("input x: f32[4]\n"
                       "a = exp(x): f32[4]\n"
                       "b = exp(x): f32[4]\n"
                       "y = add(a, b): f32[4]\n"
                       "output y = y\n",
                       {"cse"}),
            "input x: f32[4]\n"
            "a = exp(x): f32[4]\n"
            "y = add(a, a): f32[4]\n"
            "output y = y\n");
}

TEST(CommonSubexpressions, ChainsMergeFromTheirBegin) {
  const Rewritten made = rewritten(
      "input x: f32[4]\n"
      "a = exp(x): f32[4]\n"
      "b = exp(x): f32[4]\n"
      "c = sin(a): f32[4]\n"
      "d = sin(b): f32[4]\n"
      "y = add(c, d): f32[4]\n"
      "output y = y\n",
      {"cse"});
  EXPECT_EQ(to_text(made.made.graph),
            "input x: f32[4]\n"
            "a = exp(x): f32[4]\n"
            "c = sin(a): f32[4]\n"
            "y = add(c, c): f32[4]\n"
            "output y = y\n");
  EXPECT_EQ(made.made.replaced.at("b"), "a");
  EXPECT_EQ(made.made.replaced.at("d"), "c");
}

TEST(CommonSubexpressions, EveryResultOfAnOpIsReplaced) {
  EXPECT_EQ(text_after("input x: f32[4]\n"
                       "s = sort(x) {descending=false, dim=0, size=4}: f32[4], i32[4]\n"
                       "t = sort(x) {descending=false, dim=0, size=4}: f32[4], i32[4]\n"
                       "y = add(s, t): f32[4]\n"
                       "i = add(s:1, t:1): i32[4]\n"
                       "output y = y\n"
                       "output i = i\n",
                       {"cse"}),
            "input x: f32[4]\n"
            "s = sort(x) {descending=false, dim=0, size=4}: f32[4], i32[4]\n"
            "y = add(s, s): f32[4]\n"
            "i = add(s:1, s:1): i32[4]\n"
            "output y = y\n"
            "output i = i\n");
}

TEST(CommonSubexpressions, ZerosOfTwoSignsDiffer) {
  // x * 0.0 and x * -0.0 are zeros of different signs.
  expect_unchanged(
      "input x: f32[4]\n"
      "a = mul_scalar(x) {value=0.0}: f32[4]\n"
      "b = mul_scalar(x) {value=-0.0}: f32[4]\n"
      "y = div(a, b): f32[4]\n"
      "output y = y\n");
}

TEST(CommonSubexpressions, RandomOpsWithDifferentKeysDiffer) {
  expect_unchanged(
      "input step: i32[]\n"
      "a = random_uniform(step) {key=1, shape=[4]}: f32[4]\n"
      "b = random_uniform(step) {key=2, shape=[4]}: f32[4]\n"
      "y = add(a, b): f32[4]\n"
      "output y = y\n");
}

TEST(CommonSubexpressions, NothingLivesFromForwardToBackwardBecauseOfIt) {
  expect_unchanged(
      "input x: f32[4]\n"
      "a = exp(x): f32[4]\n"
      "b = exp(x): f32[4] @backward\n"
      "y = add(a, b): f32[4] @backward\n"
      "output y = y\n");
}

TEST(CommonSubexpressions, OpsOfTwoStagesStayApart) {
  expect_unchanged(
      "input x: f32[4]\n"
      "a = exp(x): f32[4]\n"
      "b = exp(x): f32[4]\n"
      "y = add(a, b): f32[4]\n"
      "output y = y\n",
      {{0, 1, 1}, {}});
}

TEST(CommonSubexpressions, MarkedOpsStayApart) {
  const std::string text =
      "input x: f32[4]\n"
      "a = exp(x): f32[4]\n"
      "b = exp(x): f32[4]\n"
      "y = add(a, b): f32[4]\n"
      "output y = y\n";
  expect_unchanged(text, {{}, {true, false, false}});
  expect_unchanged(text, {{}, {false, true, false}});
}

// Each layer adds one to what it reads. Every one of them is read before the next one is made.
TEST(CommonSubexpressions, LayersDoNotShareWhatEachOfThemMakes) {
  expect_unchanged(
      "input x: f32[4]\n"
      "a.one = constant() {dtype=\"f32\", shape=[4], value=1.0}: f32[4]\n"
      "a = add(x, a.one): f32[4]\n"
      "b.one = constant() {dtype=\"f32\", shape=[4], value=1.0}: f32[4]\n"
      "b = add(a, b.one): f32[4]\n"
      "output b = b\n");
}

TEST(CommonSubexpressions, LayersShareWhatIsAliveInAllOfThem) {
  EXPECT_EQ(text_after("input x: f32[4]\n"
                       "blocks.0.mask = exp(x): f32[4]\n"
                       "blocks.0.y = mul(x, blocks.0.mask): f32[4]\n"
                       "blocks.1.mask = exp(x): f32[4]\n"
                       "blocks.1.y = mul(blocks.0.y, blocks.1.mask): f32[4]\n"
                       "last = mul(blocks.1.y, blocks.0.mask): f32[4]\n"
                       "output y = last\n",
                       {"cse"}),
            "input x: f32[4]\n"
            "blocks.0.mask = exp(x): f32[4]\n"
            "blocks.0.y = mul(x, blocks.0.mask): f32[4]\n"
            "blocks.1.y = mul(blocks.0.y, blocks.0.mask): f32[4]\n"
            "last = mul(blocks.1.y, blocks.0.mask): f32[4]\n"
            "output y = last\n");
}

TEST(CommonSubexpressions, NamesDoNotCount) {
  for (const std::string one : {"b.0.q.one_1", "b.0.k.one", "b.1.one", "7"})
    EXPECT_EQ(
        text_after("b.0.q.one = constant() {dtype=\"f32\", shape=[4], value=1.0}: f32[4]\n" + one +
                       " = constant() {dtype=\"f32\", shape=[4], value=1.0}: f32[4]\n"
                       "y = add(b.0.q.one, " +
                       one + "): f32[4]\noutput y = y\n",
                   {"cse"}),
        "b.0.q.one = constant() {dtype=\"f32\", shape=[4], value=1.0}: f32[4]\n"
        "y = add(b.0.q.one, b.0.q.one): f32[4]\n"
        "output y = y\n")
        << one;
}

// a is last read by c. To merge b into it would keep 16 bytes alive from c to d.
TEST(CommonSubexpressions, AValueIsNotKeptAliveForALaterRepetition) {
  expect_unchanged(
      "input x: f32[4]\n"
      "a = exp(x): f32[4]\n"
      "c = sin(a): f32[4]\n"
      "b = exp(x): f32[4]\n"
      "d = cos(b): f32[4]\n"
      "y = add(c, d): f32[4]\n"
      "output y = y\n");
}

TEST(CommonSubexpressions, AResultOfTheProgramIsKept) {
  expect_unchanged(
      "input x: f32[4]\n"
      "a = exp(x): f32[4]\n"
      "b = exp(x): f32[4]\n"
      "output a = a\n"
      "output b = b\n");
}

TEST(CommonSubexpressions, AnOriginFollowsTheOpThatIsLeft) {
  EXPECT_EQ(text_after("input x: f32[4]\n"
                       "a = exp(x): f32[4]\n"
                       "b = exp(x): f32[4]\n"
                       "y = add(a, b): f32[4]\n"
                       "g = mul(y, b): f32[4] @backward <- gradient b\n"
                       "output g = g\n",
                       {"cse"}),
            "input x: f32[4]\n"
            "a = exp(x): f32[4]\n"
            "y = add(a, a): f32[4]\n"
            "g = mul(y, a): f32[4] @backward <- gradient a\n"
            "output g = g\n");
}

}  // namespace
}  // namespace tessera
