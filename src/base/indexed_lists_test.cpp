#include "base/indexed_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Row = Index<struct RowTag>;

TEST(IndexedLists, AreAppendedOneAfterTheOther) {
  IndexedLists<Row, int> lists;
  lists.add(3);
  lists.add(1);
  lists.end_list();
  lists.end_list();
  lists.add(4);
  lists.end_list();
  ASSERT_EQ(lists.size(), 3);
  EXPECT_THAT(lists[Row(0)], ElementsAre(3, 1));
  EXPECT_THAT(lists[Row(1)], IsEmpty());
  EXPECT_THAT(lists[Row(2)], ElementsAre(4));
  EXPECT_FALSE(lists.contains(Row(3)));
  EXPECT_FALSE(lists.contains(Row()));
}

TEST(IndexedLists, OfPairsKeepTheirOrderInEachList) {
  const std::vector<std::pair<Row, char>> pairs{
      {Row(2), 'b'}, {Row(0), 'c'}, {Row(2), 'a'}, {Row(0), 'd'}};
  const IndexedLists<Row, char> lists(4, pairs);
  ASSERT_EQ(lists.size(), 4);
  EXPECT_THAT(lists[Row(0)], ElementsAre('c', 'd'));
  EXPECT_THAT(lists[Row(1)], IsEmpty());
  EXPECT_THAT(lists[Row(2)], ElementsAre('b', 'a'));
  EXPECT_THAT(lists[Row(3)], IsEmpty());
}

}  // namespace
}  // namespace tessera
