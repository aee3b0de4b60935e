#include "cli/print/text_table.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCellAndNumbersStandRight) {
  TextTable table({"name", "bytes", "why"}, "lrl");
  table.add({"w", "1,024", "a mark"});
  table.add({"bias.of.it", "8", ""});
  EXPECT_EQ(table.text(),
            "  name        bytes  why\n"
            "  w           1,024  a mark\n"
            "  bias.of.it      8\n");
}

TEST(TextTable, ARowHasACellAColumn) {
  TextTable table({"a", "b"}, "ll");
  EXPECT_TRUE(table.empty());
  EXPECT_THROW(table.add({"only one"}), InternalError);
}

TEST(TextTable, DigitsAreGroupedByThree) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
}

TEST(TextTable, ACountAgreesWithItsNoun) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(4000, "step"), "4,000 steps");
}

}  // namespace
}  // namespace tessera
