#include "compiler/lower/internal/storage/range_counter.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tessera {
namespace {

int64_t counted_below(const std::multiset<int64_t>& numbers, int64_t limit) {
  return std::distance(numbers.begin(), numbers.lower_bound(limit));
}

TEST(SortedNumbers, NoneHasNothingBelowAnyLimit) {
  const SortedNumbers none({});
  for (int64_t limit : {int64_t{-1}, int64_t{0}, int64_t{1} << 50})
    EXPECT_EQ(none.count_below(limit), 0);
}

TEST(SortedNumbers, EqualsAPlainSetWhileNumbersComeAndGo) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    // Numbers of most seeds are close together, with a few that are far away.
    const int64_t far = int64_t{1} << (random() % 40);
    const auto number = [&] { return static_cast<int64_t>(random() % (random() % 8 ? 50 : far)); };
    std::vector<int64_t> first(random() % 60);
    for (int64_t& entry : first) entry = number();
    std::multiset<int64_t> plain(first.begin(), first.end());
    SortedNumbers sorted(first);
    for (int change = 0; change < 40; ++change) {
      if (plain.empty() || random() % 2) {
        const int64_t added = number() * (random() % 4 ? 1 : 1000);
        plain.insert(added);
        sorted.add(added);
      } else {
        const auto removed = std::next(plain.begin(), random() % plain.size());
        sorted.remove(*removed);
        plain.erase(removed);
      }
      for (int look = 0; look < 5; ++look) {
        const int64_t limit = number() - 1;
        ASSERT_EQ(sorted.count_below(limit), counted_below(plain, limit)) << limit;
      }
      for (int64_t limit : plain)
        ASSERT_EQ(sorted.count_below(limit), counted_below(plain, limit)) << limit;
    }
  }
}

}  // namespace
}  // namespace tessera
