#include "base/text/number_list.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tessera {
namespace {

std::string list(const std::vector<int>& numbers) {
  return number_list(numbers);
}

TEST(NumberList, NamesTheEndsOfRunsAndOfEvenSteps) {
  EXPECT_EQ(list({}), "");
  EXPECT_EQ(list({5}), "5");
  EXPECT_EQ(list({0, 1}), "0-1");
  EXPECT_EQ(list({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(list({0, 2, 4, 6}), "0,2,4,6");
  std::vector<int> eighths;
  for (int i = 0; i < 128; i += 8) eighths.push_back(i);
  EXPECT_EQ(list(eighths), "0,8,..,120");
}

TEST(NumberList, OfManyPartsHasTheFirstTheLastAndTheCount) {
  std::vector<int> pairs;
  for (int i = 0; i < 80; i += 4) pairs.insert(pairs.end(), {i, i + 1});
  EXPECT_EQ(list(pairs), "0-1,4-5,8-9,12-13,..,76-77 (40)");
}

}  // namespace
}  // namespace tessera
