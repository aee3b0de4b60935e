#include "base/copy_on_write.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/shared_vector.h"
#include "base/text/name_template.h"

namespace tessera {
namespace {

TEST(CopyOnWrite, CopiesHaveOneValueUntilOneIsChanged) {
  const CopyOnWrite<std::string> first(std::string("a long text that is not inside of its string"));
  CopyOnWrite<std::string> second = first;
  EXPECT_EQ(&*first, &*second);
  second.change([](std::string& text) { text = "other"; });
  EXPECT_EQ(first->substr(0, 6), "a long");
  EXPECT_EQ(*second, "other");
}

TEST(CopyOnWrite, ValuesThatWereMadeApartCompareByValue) {
  EXPECT_EQ(CopyOnWrite<int>(2), CopyOnWrite<int>(2));
  EXPECT_NE(CopyOnWrite<int>(2), CopyOnWrite<int>(3));
  EXPECT_EQ(CopyOnWrite<int>(), CopyOnWrite<int>(0));
}

TEST(SharedVector, ACopySharesItsElementsUntilItIsChanged) {
  const SharedVector<int> first = {1, 2};
  SharedVector<int> second = first;
  EXPECT_EQ(&first.front(), &std::as_const(second).front());
  second.push_back(3);
  EXPECT_EQ(first, (SharedVector<int>{1, 2}));
  EXPECT_EQ(second, (SharedVector<int>{1, 2, 3}));
}

TEST(SharedVector, AChangeOfTheOriginalLeavesTheCopy) {
  SharedVector<int> first = {1, 2};
  const SharedVector<int> second = first;
  first[0] = 5;
  for (int& item : first) item += 1;
  erase_if(first, [](int item) { return item == 3; });
  EXPECT_EQ(first, SharedVector<int>{6});
  EXPECT_EQ(second, (SharedVector<int>{1, 2}));
}

TEST(SharedVector, InsertsAndErasesAtPlacesOfTheSharedElements) {
  SharedVector<int> list = {1, 4};
  const SharedVector<int> copy = list;
  const std::vector<int> more = {2, 3};
  list.insert(std::as_const(list).begin() + 1, more.begin(), more.end());
  EXPECT_EQ(list, (SharedVector<int>{1, 2, 3, 4}));
  const SharedVector<int> again = list;
  list.erase(std::as_const(list).begin(), std::as_const(list).begin() + 3);
  EXPECT_EQ(list, SharedVector<int>{4});
  EXPECT_EQ(again.size(), 4u);
  EXPECT_EQ(copy, (SharedVector<int>{1, 4}));
}

TEST(SharedVector, AnEmptyOneEqualsOneWhoseElementsWereErased) {
  SharedVector<int> list = {1};
  list.pop_back();
  EXPECT_EQ(list, SharedVector<int>());
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(SharedVector<int>().size(), 0u);
}

const NameTemplate kName(std::string("y #") + NameTemplate::kMark + " in " + NameTemplate::kMark);

TEST(NameTemplate, TheNumberStandsForEachMark) {
  EXPECT_EQ(kName.numbered(12).text(), "y #12 in 12");
  EXPECT_EQ(kName.with("i"), "y #i in i");
  EXPECT_EQ(kName.text(), kName.pattern());
  EXPECT_EQ(NameTemplate("y").numbered(3).text(), "y");
  EXPECT_EQ(NameTemplate().text(), "");
}

TEST(NameTemplate, NumbersOfOnePatternShareIt) {
  EXPECT_EQ(&kName.numbered(1).pattern(), &kName.numbered(2).pattern());
}

TEST(NameTemplate, ComparesAndConcatenatesAsItsText) {
  const NameTemplate name = kName.numbered(1);
  EXPECT_EQ(name, "y #1 in 1");
  EXPECT_EQ(name, NameTemplate("y #1 in 1"));
  EXPECT_NE(name, kName.numbered(2));
  EXPECT_EQ("'" + name + "'", "'y #1 in 1'");
  NameTemplate longer = name;
  longer += ".sum";
  EXPECT_EQ(longer, "y #1 in 1.sum");
  EXPECT_EQ(name, "y #1 in 1");
}

}  // namespace
}  // namespace tessera
