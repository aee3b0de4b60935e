#include "base/text/shell_quote.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ShellQuoted, LeavesPlainWordsAndQuotesAllOthers) {
  EXPECT_EQ(shell_quoted("train.steps=10"), "train.steps=10");
  EXPECT_EQ(shell_quoted("configs/a-b_c.toml"), "configs/a-b_c.toml");
  EXPECT_EQ(shell_quoted("my run"), "'my run'");
  EXPECT_EQ(shell_quoted("data.path=[\"a\"]"), "'data.path=[\"a\"]'");
  EXPECT_EQ(shell_quoted("$HOME;ls"), "'$HOME;ls'");
  EXPECT_EQ(shell_quoted("~/run"), "'~/run'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

}  // namespace
}  // namespace tessera
