#include "base/index.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

namespace tessera {
namespace {

using RowId = Index<struct RowTag>;
using ColumnId = Index<struct ColumnTag>;
using Rows = IndexedVector<RowId, std::string>;

TEST(Index, OfAnotherTableIsNotAccepted) {
  EXPECT_FALSE((std::is_convertible_v<ColumnId, RowId>));
  EXPECT_FALSE((std::is_convertible_v<int, RowId>));
  EXPECT_FALSE((std::is_convertible_v<RowId, int>));
  EXPECT_TRUE((std::is_invocable_v<decltype([](Rows& r, RowId i) { return r[i]; }), Rows&, RowId>));
  EXPECT_FALSE(
      (std::is_invocable_v<decltype([](auto& r, auto i) -> decltype(r[i]) { return r[i]; }), Rows&,
                           ColumnId>));
}

TEST(Index, DefaultIsNone) {
  EXPECT_TRUE(RowId().is_none());
  EXPECT_FALSE(RowId(0).is_none());
  EXPECT_LT(RowId(), RowId(0));
}

TEST(IndexedVector, PushBackReturnsTheIndexOfTheElement) {
  Rows rows;
  EXPECT_EQ(rows.push_back("a"), RowId(0));
  EXPECT_EQ(rows.push_back("b"), RowId(1));
  EXPECT_EQ(rows[RowId(1)], "b");
  EXPECT_EQ(rows.end_index(), RowId(2));
}

TEST(IndexedVector, IndicesVisitsEveryElementInOrder) {
  const Rows rows = {"a", "b", "c"};
  std::vector<int> seen;
  for (const RowId row : rows.indices()) seen.push_back(row.value());
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
}

TEST(IndexedVector, AtThrowsOutsideOfTheTable) {
  const Rows rows = {"a"};
  EXPECT_THROW(rows.at(RowId()), InternalError);
  EXPECT_THROW(rows.at(RowId(1)), InternalError);
}

}  // namespace
}  // namespace tessera
