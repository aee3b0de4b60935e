#include "tools/cli/internal/help_text.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tessera {
namespace {

TEST(WrapHelp, KeepsTheSecondColumn) {
  EXPECT_EQ(wrap_help("Options:\n  --a X  one two three four\n", 9, 20),
            "Options:\n  --a X  one two\n         three four\n");
  EXPECT_EQ(wrap_help("one two three four five six", 9, 10), "one two\nthree four\nfive six");
  EXPECT_EQ(wrap_help("  tessera train one two three\n", 9, 10), "  tessera train one two three\n");
  EXPECT_EQ(wrap_help("  --a-name-that-is-long", 9, 10), "  --a-name-that-is-long");
}

TEST(HelpWidth, IsThatOfColumns) {
  setenv("COLUMNS", "72", 1);
  EXPECT_EQ(help_width(), 72);
  setenv("COLUMNS", "9", 1);
  EXPECT_EQ(help_width(), 60);
  setenv("COLUMNS", "no", 1);
  EXPECT_GE(help_width(), 60);
  unsetenv("COLUMNS");
}

}  // namespace
}  // namespace tessera
