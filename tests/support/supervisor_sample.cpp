// A test program with one case of each way to end: supervisor_test.py runs it.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace tessera {
namespace {

TEST(Sample, Passes) {}

TEST(Sample, Crashes) {
  std::abort();
}

TEST(Sample, Fails) {
  EXPECT_EQ(1, 2);
}

TEST(Sample, Hangs) {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

TEST(Sample, Skips) {
  GTEST_SKIP();
}

TEST(Sample, EndsTheProgram) {
  std::exit(0);
}

TEST(Sample, PassesAfterAllOthers) {}

}  // namespace
}  // namespace tessera
