#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

using testing::ThrowsMessage;

TEST(UserError, PrintsWhatWhyAndFix) {
  const UserError error("matmul 'up': a f32[8,16] does not fit b f32[4,16]",
                        "matmul takes a [m,k] and b [k,n] with the same k", "transpose b");
  EXPECT_STREQ(error.what(),
               "matmul 'up': a f32[8,16] does not fit b f32[4,16]\n"
               "  why: matmul takes a [m,k] and b [k,n] with the same k\n"
               "  fix: transpose b");
}

TEST(UserError, KeepsItsPartsAndItsExitCode) {
  const UserError error("what", "why", "fix", ExitCode::kBadData);
  EXPECT_EQ(error.what_happened(), "what");
  EXPECT_EQ(error.why(), "why");
  EXPECT_EQ(error.fix(), "fix");
  EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
  EXPECT_EQ(UserError("what", "why", "fix").exit_code(), ExitCode::kFailure);
}

TEST(ExitCode, HasTheNumbersThatScriptsRelyOn) {
  const std::vector<std::pair<ExitCode, int>> contract = {{ExitCode::kDone, 0},
                                                          {ExitCode::kFailure, 1},
                                                          {ExitCode::kUsage, 2},
                                                          {ExitCode::kNoPlan, 3},
                                                          {ExitCode::kOutOfMemory, 4},
                                                          {ExitCode::kDiverged, 5},
                                                          {ExitCode::kVerificationFailed, 6},
                                                          {ExitCode::kBadData, 65},
                                                          {ExitCode::kMissingInput, 66},
                                                          {ExitCode::kPreempted, 75},
                                                          {ExitCode::kBadConfig, 78}};
  for (const auto& [code, number] : contract) EXPECT_EQ(static_cast<int>(code), number);
}

TEST(Ensure, ThrowsWhenThePromiseIsBroken) {
  EXPECT_NO_THROW(ensure(true, "two and two are four"));
  EXPECT_THAT([] { ensure(false, "two and two are five"); },
              ThrowsMessage<InternalError>("internal error: two and two are five"));
}

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);  // k to s, e to i, and a g
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2);       // without f, with n
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("same", "same"), 0);
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("Same", "sAME"), 0);
}

TEST(Nearest, IsTheChoiceWithTheFewestEdits) {
  const std::vector<std::string> keys = {"context", "batch", "layers", "seed"};
  EXPECT_EQ(nearest("contxt", keys), "context");
  EXPECT_EQ(nearest("bacth", keys), "batch");
  EXPECT_EQ(nearest("seed", keys), "seed");
}

TEST(Nearest, ComparesWithoutRegardToCase) {
  const std::vector<std::string> kinds = {"sgd", "momentum", "adam", "adamw"};
  EXPECT_EQ(nearest("AdamW", kinds), "adamw");
  EXPECT_EQ(nearest("adamW", kinds), "adamw");
  EXPECT_EQ(nearest("SGD", kinds), "sgd");
  EXPECT_EQ(nearest("Width", std::vector<std::string>{"depth", "width"}), "width");
}

TEST(Nearest, IsNothingWhenMoreThanHalfOfTheLettersDiffer) {
  const std::vector<std::string> keys = {"abcd"};
  EXPECT_EQ(nearest("abxy", keys), "abcd");  // 2 of 4
  EXPECT_EQ(nearest("axyz", keys), "");      // 3 of 4
  EXPECT_EQ(nearest("abcd", std::vector<std::string>{}), "");
}

TEST(Nearest, OfEquallyNearOnesIsTheFirst) {
  EXPECT_EQ(nearest("bat", std::vector<std::string>{"cat", "hat"}), "cat");
}

TEST(UserErrorText, IsWholeWhenItQuotesAZeroByte) {
  const UserError error(std::string("axis 'a\0b'", 10), "why", "fix");
  EXPECT_STREQ(error.what(), "axis 'a\\x00b'\n  why: why\n  fix: fix");
  EXPECT_EQ(error.what_happened().size(), 10u);
}

}  // namespace
}  // namespace tessera
