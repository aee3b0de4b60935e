#include "base/units.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Units, AddSubtractAndCompare) {
  Bytes bytes = Bytes(3) + Bytes(4);
  bytes += Bytes(1);
  EXPECT_EQ(bytes, Bytes(8));
  EXPECT_EQ(bytes - Bytes(2), Bytes(6));
  EXPECT_LT(Seconds(0.5), Seconds(0.75));
  EXPECT_EQ(Bytes().value(), 0);
}

TEST(Units, BytesPrintInTheLargestUnitThatIsReached) {
  EXPECT_EQ(to_text(Bytes(0)), "0 B");
  EXPECT_EQ(to_text(Bytes(7)), "7 B");
  EXPECT_EQ(to_text(Bytes(1023)), "1023 B");
  EXPECT_EQ(to_text(Bytes(1024)), "1 KiB");
  EXPECT_EQ(to_text(Bytes(12 * 1024)), "12 KiB");
  EXPECT_EQ(to_text(Bytes(3LL << 29)), "1.5 GiB");
  EXPECT_EQ(to_text(Bytes(int64_t{1} << 40)), "1 TiB");
  EXPECT_EQ(to_text(Bytes(int64_t{1} << 62)), "4096 PiB");
}

TEST(Units, BytesThatRoundUpToTheNextUnitPrintInIt) {
  EXPECT_EQ(to_text(Bytes(1024 * 1024 - 1)), "1 MiB");         // 1023.999 KiB
  EXPECT_EQ(to_text(Bytes(1023 * 1024 + 920)), "1023.9 KiB");  // 1023.898
}

TEST(Units, SecondsPrintInTheLargestUnitThatIsReached) {
  EXPECT_EQ(to_text(Seconds(7e-6)), "7 us");
  EXPECT_EQ(to_text(Seconds(0.012)), "12 ms");
  EXPECT_EQ(to_text(Seconds(1.5)), "1.5 s");
  EXPECT_EQ(to_text(Seconds(0)), "0 us");
  EXPECT_EQ(to_text(Seconds(60)), "1m00s");
  EXPECT_EQ(to_text(Seconds(3725)), "62m05s");
}

TEST(Units, SecondsThatRoundUpToTheNextUnitPrintInIt) {
  EXPECT_EQ(to_text(Seconds(999.96e-6)), "1 ms");
  EXPECT_EQ(to_text(Seconds(0.99996)), "1 s");
  EXPECT_EQ(to_text(Seconds(59.96)), "1m00s");
  EXPECT_EQ(to_text(Seconds(119.6)), "2m00s");
  EXPECT_EQ(to_text(Seconds(59.94)), "59.9 s");
}

}  // namespace
}  // namespace tessera
