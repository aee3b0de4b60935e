#include "base/threads/on_all_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace tessera {
namespace {

TEST(OnAllCores, CallsEachPieceOnce) {
  std::vector<int> calls(1000);
  on_all_cores(1000, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
  EXPECT_THAT(calls, testing::Each(1));
  on_all_cores(0, [&](int64_t) { FAIL() << "there is no piece"; });
}

TEST(OnAllCores, ThrowsWhatAPieceThrowsAndBeginsNoFurtherOnes) {
  std::atomic<int> calls = 0;
  EXPECT_THROW(on_all_cores(1'000'000'000,
                            [&](int64_t i) {
                              ++calls;
                              if (i == 10) throw std::runtime_error("the tenth piece");
                            }),
               std::runtime_error);
  EXPECT_LT(calls, 1'000'000'000);
}

}  // namespace
}  // namespace tessera
