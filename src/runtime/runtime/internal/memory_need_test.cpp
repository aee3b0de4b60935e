#include "runtime/runtime/internal/memory_need.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/machine_memory.h"

namespace tessera {
namespace {

TEST(MachineMemory, IsAtMostThatOfTheMachineWithItsSwapSpace) {
  std::ifstream file("/proc/meminfo");
  int64_t kib = 0;
  std::string name, unit;
  for (int64_t value = 0; file >> name >> value;) {
    if (name == "MemTotal:" || name == "SwapTotal:") kib += value;
    std::getline(file, unit);
  }
  ASSERT_GT(kib, 0);
  EXPECT_LE(machine_memory(), Bytes(kib * 1024));
  EXPECT_GT(machine_memory(), Bytes(64 << 20));  // this test runs
}

}  // namespace
}  // namespace tessera
