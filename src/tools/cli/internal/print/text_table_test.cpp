#include "tools/cli/internal/print/text_table.h"

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

}  // namespace
}  // namespace tessera
