#include "ir/graph/internal/name_table.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

/// A list of names with its table, as an owner of both has them.
struct Names {
  struct Entry {
    std::string name;
  };
  std::vector<Entry> list;
  NameTable table;

  std::optional<int> find(std::string_view name) const { return table.find(name, list); }
  bool add(const std::string& name) {
    if (!table.add(name, list)) return false;
    list.push_back({name});
    return true;
  }
};

TEST(NameTable, AnEmptyOneHasNoName) {
  EXPECT_EQ(Names().find("x"), std::nullopt);
  EXPECT_EQ(Names().find(""), std::nullopt);
}

TEST(NameTable, FindsEachNameOfAListThatGrows) {
  Names names;
  for (int i = 0; i < 2000; ++i) {
    EXPECT_EQ(names.find("layer." + std::to_string(i)), std::nullopt) << i;
    ASSERT_TRUE(names.add("layer." + std::to_string(i)));
    EXPECT_EQ(names.find("layer." + std::to_string(i)), i);
  }
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(names.find("layer." + std::to_string(i)), i);
  EXPECT_EQ(names.find("layer.2000"), std::nullopt);
}

TEST(NameTable, ATakenNameIsNotAdded) {
  Names names;
  ASSERT_TRUE(names.add("a"));
  ASSERT_TRUE(names.add("b"));
  EXPECT_FALSE(names.add("a"));
  ASSERT_TRUE(names.add("c"));
  EXPECT_EQ(names.find("a"), 0);
  EXPECT_EQ(names.find("c"), 2);
}

TEST(NameTable, ACopyIsApartFromTheOriginal) {
  Names names;
  ASSERT_TRUE(names.add("a"));
  Names copy = names;
  ASSERT_TRUE(copy.add("b"));
  EXPECT_EQ(copy.find("b"), 1);
  EXPECT_EQ(names.find("b"), std::nullopt);
}

}  // namespace
}  // namespace tessera
