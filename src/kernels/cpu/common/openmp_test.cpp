#include "kernels/cpu/common/openmp.h"

#include <gtest/gtest.h>

#include <thread>


namespace tessera {
namespace {

TEST(OpenMp, AThreadHasItsOwnNumber) {
  const int before = openmp_threads();
  int inside = 0;
  std::thread([&] {
    set_openmp_threads(before + 2);
    inside = openmp_threads();
  }).join();
  EXPECT_EQ(inside, before + 2);
  EXPECT_EQ(openmp_threads(), before);
}

}  // namespace
}  // namespace tessera
