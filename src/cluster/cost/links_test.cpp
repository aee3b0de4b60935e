#include "cluster/cost/links.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tessera {
namespace {

/// 3 s of latency and 10 bytes a second.
constexpr LinkCost kLink{Seconds(3), 10};

Price price(double estimate, double floor) {
  return {Seconds(estimate), Seconds(floor)};
}

TEST(MessagePrice, IsALatencyAndTheBytes) {
  EXPECT_EQ(message_price(Bytes(40), kLink), price(3 + 4, 4));
}

TEST(CollectivePrice, OfAnAllReduceIsTwiceThatOfItsHalves) {
  // 4 ranks, 80 bytes: 2 x 3 rounds of 20 bytes, 2 s each, and 3 s of latency each.
  EXPECT_EQ(ring_all_reduce_price(Bytes(80), 4, kLink), price(6 * (3 + 2), 6 * 2));
  EXPECT_EQ(ring_reduce_scatter_price(Bytes(80), 4, kLink), price(3 * (3 + 2), 3 * 2));
  EXPECT_EQ(ring_all_gather_price(Bytes(80), 4, kLink), price(3 * (3 + 2), 3 * 2));
}

TEST(CollectivePrice, OfAnAllToAllLeavesOutTheOwnPart) {
  // 5 ranks, 100 bytes each: 4 messages of 20 bytes.
  EXPECT_EQ(all_to_all_price(Bytes(100), 5, kLink), price(4 * (3 + 2), 4 * 2));
}

TEST(CollectivePrice, OfOneRankIsNothing) {
  for (const auto& collective :
       {ring_all_reduce_price, ring_all_gather_price, ring_reduce_scatter_price, all_to_all_price})
    EXPECT_EQ(collective(Bytes(80), 1, kLink), price(0, 0));
}

TEST(CollectivePrice, OfALargeAllReduceApproachesTwiceTheMessage) {
  // 2 (P - 1) / P of 1 GB at 25 GB/s: 70 ms on 8 ranks; the latencies are 14 x 10 us.
  const LinkCost link{Seconds(10e-6), 25e9};
  const Price made = ring_all_reduce_price(Bytes(1'000'000'000), 8, link);
  EXPECT_DOUBLE_EQ(made.floor.value(), 0.070);
  EXPECT_DOUBLE_EQ(made.estimate.value(), 0.07014);
}

TEST(CollectivePrice, FloorsAreAtMostEstimatesAndGrowWithTheBytes) {
  const RandomStream random(2, 0);
  uint64_t next = 0;
  const auto sample = [&](double largest) { return largest * random.uniform(next++); };
  for (const auto& collective :
       {ring_all_reduce_price, ring_all_gather_price, ring_reduce_scatter_price, all_to_all_price})
    for (int i = 0; i < 200; ++i) {
      const LinkCost link{Seconds(sample(1e-3)), 1 + sample(1e11)};
      const Bytes bytes(static_cast<int64_t>(sample(1e9)));
      const int ranks = 1 + static_cast<int>(sample(64));
      const Price made = collective(bytes, ranks, link);
      EXPECT_LE(made.floor, made.estimate);
      const Price more = collective(bytes + Bytes(1000), ranks, link);
      EXPECT_LE(made.floor, more.floor);
      EXPECT_LE(made.estimate, more.estimate);
    }
}

// ---- exchanges ----

TEST(ExchangeTime, IsThatOfTheBusiestReceiver) {
  // Rank 0 gets 40 bytes from rank 1, in two messages, and 20 from rank 2; rank 1 gets 10. Rank 0
  // has two latencies and receives for 6 s; no rank sends for longer than the 4 s of rank 1.
  ExchangeTime time;
  time.add(1, Bytes(30), kLink);
  time.add(1, Bytes(10), kLink);
  time.add(2, Bytes(20), kLink);
  time.end_receiver();
  time.add(2, Bytes(10), kLink);
  time.end_receiver();
  EXPECT_EQ(time.price(), price(2 * 3 + 6, 6));
}

TEST(ExchangeTime, IsThatOfTheBusiestSender) {
  // A rank that sends 20 bytes to each of 4 others sends for 8 s; each of them waits for one
  // latency.
  ExchangeTime time;
  for (int receiver = 0; receiver < 4; ++receiver) {
    time.add(9, Bytes(20), kLink);
    time.end_receiver();
  }
  EXPECT_EQ(time.price(), price(3 + 8, 8));
}

TEST(ExchangeTime, HasAFloorInWhichDifferentLinksOverlap) {
  // 40 bytes over one link take 4 s and 40 over the faster one 2 s: 6 s one after the other, 4 s at
  // the same time.
  const LinkCost faster{Seconds(1), 20};
  ExchangeTime time;
  time.add(1, Bytes(40), kLink);
  time.add(2, Bytes(40), faster);
  time.end_receiver();
  EXPECT_EQ(time.price(), price((3 + 1) + 6, 4));
}

TEST(ExchangeTime, WithoutMessagesIsNothing) {
  ExchangeTime time;
  time.end_receiver();
  EXPECT_EQ(time.price(), price(0, 0));
}

TEST(LinkCosts, AnAxisOrAPairMayHaveLinksOfItsOwn) {
  LinkCosts links;
  links.any = kLink;
  links.axes["node"] = {Seconds(10), 1};
  links.pairs[{0, 1}] = {Seconds(0), 100};
  EXPECT_EQ(links.on("dp"), kLink);
  EXPECT_EQ(links.on("node").bytes_per_second, 1);
  EXPECT_EQ(links.between(0, 1)->bytes_per_second, 100);
  EXPECT_EQ(links.between(1, 0), links.between(0, 1)) << "both directions";
  EXPECT_EQ(links.between(0, 2), nullptr);
}

TEST(LinkCost, TheStartOfAnExchangeIsPaidOnce) {
  const LinkCost link{Seconds(2e-6), 1e9, Seconds(40e-6)};
  EXPECT_DOUBLE_EQ(ring_all_gather_price(Bytes(8000), 8, link).estimate.value(),
                   40e-6 + 7 * 2e-6 + 7e-6);
  EXPECT_DOUBLE_EQ(ring_all_gather_price(Bytes(8000), 1, link).estimate.value(), 0);
  EXPECT_DOUBLE_EQ(message_price(Bytes(1000), link).estimate.value(), 43e-6);
  ExchangeTime time;
  for (const Rank sender : {1, 2}) time.add(sender, Bytes(1000), link);
  time.end_receiver();
  EXPECT_DOUBLE_EQ(time.price().estimate.value(), 40e-6 + 2 * 2e-6 + 2e-6);
  EXPECT_DOUBLE_EQ(time.price().floor.value(), 2e-6);
}

}  // namespace
}  // namespace tessera
