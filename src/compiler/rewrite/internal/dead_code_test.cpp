#include "compiler/rewrite/internal/dead_code.h"

#include <gtest/gtest.h>

#include "compiler/rewrite/testing/rewritten.h"

namespace tessera {
namespace {

using rewrite_testing::text_after;

TEST(DeadCode, DropsAChainThatNoResultNeeds) {
  EXPECT_EQ(text_after("input x: f32[4]\n"
                       "y = exp(x): f32[4]\n"
                       "a = sin(y): f32[4]\n"
                       "b = cos(a): f32[4]\n"
                       "output y = y\n",
                       {"dead-code"}),
            "input x: f32[4]\n"
            "y = exp(x): f32[4]\n"
            "output y = y\n");
}

TEST(DeadCode, KeepsNextValuesInputsAndVariables) {
  const std::string text =
      "input unread: f32[4]\n"
      "variable v: f32[4] = constant(0.0)\n"
      "variable w: f32[4] = normal(0.0, 1.0)\n"
      "w.next = neg(w): f32[4]\n"
      "next w = w.next\n";
  EXPECT_EQ(text_after(text, {"dead-code"}), text);
}

TEST(DeadCode, KeepsAnOpOfWhichOneResultIsRead) {
  const std::string text =
      "input x: f32[4]\n"
      "s = sort(x) {descending=false, dim=0, size=4}: f32[4], i32[4]\n"
      "output ids = s:1\n";
  EXPECT_EQ(text_after(text, {"dead-code"}), text);
}

TEST(DeadCode, KeepsMarkedOps) {
  const std::string text =
      "input x: f32[4]\n"
      "y = exp(x): f32[4]\n"
      "a = sin(x): f32[4]\n"
      "output y = y\n";
  EXPECT_EQ(text_after(text, {"dead-code"}, {{}, {false, true}}), text);
}

TEST(DeadCode, KeepsAllOfAGraphThatNamesNoResult) {
  const std::string text =
      "input x: f32[4]\n"
      "y = exp(x): f32[4]\n";
  EXPECT_EQ(text_after(text, {"dead-code"}), text);
}

}  // namespace
}  // namespace tessera
