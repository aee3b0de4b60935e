// Recv regions of exchanges between placements with windows and chunks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sharding/reshard/recv_regions.h"

namespace tessera {
namespace {

using testing::ElementsAre;

struct Given {
  Shape shape;
  Exchange exchange;
};

Given exchange_of(std::string_view mesh_text, std::string_view from, std::string_view to) {
  const auto mesh = std::make_shared<const Mesh>(parse_mesh(mesh_text));
  const DistType a = parse_dist_type(from, mesh), b = parse_dist_type(to, mesh);
  return {a.type.shape, classified(a.type.shape, a.attr, b.attr)};
}

/// "[2:3] from 0".
std::vector<std::string> recv_regions_of(const Given& given, Rank receiver) {
  std::vector<std::string> texts;
  for (const RecvRegion& recv_region : recv_regions(given.shape, given.exchange, receiver))
    texts.push_back(to_text(recv_region.box) + " from " + std::to_string(recv_region.sender));
  return texts;
}

TEST(Halo, TakesARowFromEachNeighbour) {
  // 8 rows over 3: [0:3] [3:6] [6:8].
  const Given given = exchange_of("h=3", "f32[8@h]", "f32[8@h~8(-1:+1)]");
  EXPECT_EQ(given.exchange.kind, ReshardKind::kHalo);
  EXPECT_THAT(recv_regions_of(given, 0), ElementsAre("[0:3] from 0", "[3:4] from 1"));
  EXPECT_THAT(recv_regions_of(given, 1),
              ElementsAre("[2:3] from 0", "[3:6] from 1", "[6:7] from 2"));
  EXPECT_THAT(recv_regions_of(given, 2), ElementsAre("[5:6] from 1", "[6:8] from 2"));
  EXPECT_EQ(received_elements({8}, {given.exchange}, 1), 2);
  EXPECT_EQ(min_received_elements({8}, given.exchange.from, given.exchange.to, 1), 2);
}

TEST(Halo, AWindowWiderThanAPartReachesSeveralNeighbours) {
  // 5 rows over 4: 2, 1, 1, 1. The window adds three rows on either side.
  const Given given = exchange_of("h=4", "f32[5@h]", "f32[5@h~5(-3:+3)]");
  EXPECT_THAT(recv_regions_of(given, 3),
              ElementsAre("[1:2] from 0", "[2:3] from 1", "[3:4] from 2", "[4:5] from 3"));
}

TEST(Halo, ARankWithAnEmptyPartTakesNothing) {
  // 2 rows over 3: the last rank has none, and needs none.
  const Given given = exchange_of("h=3", "f32[2@h]", "f32[2@h~2(-1:+1)]");
  EXPECT_THAT(recv_regions_of(given, 0), ElementsAre("[0:1] from 0", "[1:2] from 1"));
  EXPECT_TRUE(recv_regions_of(given, 2).empty());
}

TEST(Halo, TheWindowOfAPadReachesPartsOfOtherRanks) {
  // 3 rows of x over 4 ranks: 1, 1, 1, 0. A pad by 3 in front makes 8 rows, 2 on each rank: rank 1
  // needs row 0 of x, and rank 2 rows 1 and 2.
  const Given given = exchange_of("h=4", "f32[3@h]", "f32[3@h~8(-3:-3)]");
  EXPECT_TRUE(recv_regions_of(given, 0).empty());
  EXPECT_THAT(recv_regions_of(given, 1), ElementsAre("[0:1] from 0"));
  EXPECT_THAT(recv_regions_of(given, 2), ElementsAre("[1:2] from 1", "[2:3] from 2"));
  EXPECT_TRUE(recv_regions_of(given, 3).empty());
}

TEST(Halo, OverlappingRowsAreTakenOnceAndFromTheReceiverFirst) {
  // Each rank also holds a row of each neighbour; the target is the whole.
  const Given gather = exchange_of("h=3", "f32[9@h~9(-1:+1)]", "f32[9]");
  EXPECT_THAT(recv_regions_of(gather, 0),
              ElementsAre("[0:4] from 0", "[4:7] from 1", "[7:9] from 2"));
  EXPECT_THAT(recv_regions_of(gather, 1),
              ElementsAre("[0:2] from 0", "[2:7] from 1", "[7:9] from 2"));
  // Every rank already holds its part without the window.
  EXPECT_EQ(exchange_of("h=3", "f32[9@h~9(-1:+1)]", "f32[9@h]").exchange.kind, ReshardKind::kSlice);
  // The window becomes wider: two rows instead of one.
  const Given wider = exchange_of("h=3", "f32[9@h~9(-1:+1)]", "f32[9@h~9(-2:+2)]");
  EXPECT_THAT(recv_regions_of(wider, 1),
              ElementsAre("[1:2] from 0", "[2:7] from 1", "[7:8] from 2"));
}

TEST(Halo, OverlappingPartialPartsAreReducedOnce) {
  // Partial over b, with parts that overlap over a: each element takes one partial value of each
  // coordinate on b, from one coordinate on a.
  const Given given = exchange_of("a=2 b=2", "f32[4@a~4(-1:+1)] {partial sum: b}", "f32[4]");
  EXPECT_THAT(recv_regions_of(given, 0),
              ElementsAre("[0:3] from 0", "[0:3] from 1", "[3:4] from 2", "[3:4] from 3"));
}

TEST(Halo, WindowsMayOmitWantedRows) {
  const auto mesh = std::make_shared<const Mesh>(parse_mesh("h=2"));
  const auto attr = [&](std::string_view text) { return parse_dist_type(text, mesh).attr; };
  // Rows 1 to 8 of 10.
  EXPECT_FALSE(holds_all_of({10}, attr("f32[10@h~8(+1:+1)]"), attr("f32[10]")));
  EXPECT_TRUE(holds_all_of({10}, attr("f32[10@h~8(+1:+1)]"), attr("f32[10@h~6(+2:+2)]")));
  // Every other row, and the rows between those of one part: rows 0 to 4 and 6 to 8 of 10, not 5.
  EXPECT_FALSE(holds_all_of({10}, attr("f32[10@h~5(*2+0:+0)]"), attr("f32[10@h~8(+1:+1)]")));
}

/// Expects that each rank takes every index that it wants exactly once, from a rank that holds it.
void expect_exact(const Given& given, const std::string& what) {
  const Exchange& exchange = given.exchange;
  for (Rank receiver : exchange.to.mesh->ranks()) {
    std::vector<int64_t> taken;
    for (const RecvRegion& recv_region : recv_regions(given.shape, exchange, receiver)) {
      const std::vector<int64_t> held = exchange.from.indices(
          given.shape, *exchange.from.mesh->coordinate_of(recv_region.sender))[0];
      for (int64_t i = recv_region.box.ranges[0].begin; i < recv_region.box.ranges[0].end; ++i) {
        ASSERT_TRUE(std::find(held.begin(), held.end(), i) != held.end())
            << what << ": rank " << recv_region.sender << " does not hold " << i;
        taken.push_back(i);
      }
    }
    ASSERT_EQ(taken,
              exchange.to.indices(given.shape, *exchange.to.mesh->coordinate_of(receiver))[0])
        << what << ", rank " << receiver;
  }
}

TEST(Halo, TheRecvRegionsBetweenEveryPairOfPlacementsAreExact) {
  const std::vector<std::string> placements = {"12",
                                               "12@a",
                                               "12@b@a",
                                               "12@a~12(-1:+1)",
                                               "12@a@b~12(-2:+0)",
                                               "12@b~12(-9:+9)",
                                               "12@a~24(/2+0:+1)",
                                               "12@a~5(*2+0:+2)",
                                               "12@b~12(-1:+1)~12(+0:+1)",
                                               "12@a/2",
                                               "12@b/4",
                                               "12@a@b/2",
                                               "12@b:2/3"};
  for (const std::string& from : placements)
    for (const std::string& to : placements) {
      const Given given = exchange_of("a=3 b=2", "f32[" + from + "]", "f32[" + to + "]");
      if (holds_all_of(given.shape, given.exchange.from, given.exchange.to))
        expect_exact(given, from + " -> " + to);
    }
}

TEST(ReshardChunks, AreTakenPieceByPieceWhereTheEndsDivideDifferently) {
  // Two chunks of 4 over two ranks: rank 0 holds 0, 1, 4 and 5. Without chunks it holds 0 to 3.
  const Given given = exchange_of("a=2", "f32[8@a]", "f32[8@a/2]");
  EXPECT_THAT(recv_regions_of(given, 0), ElementsAre("[0:2] from 0", "[4:6] from 1"));
  EXPECT_THAT(recv_regions_of(given, 1), ElementsAre("[2:4] from 0", "[6:8] from 1"));
  EXPECT_EQ(received_elements({8}, {given.exchange}, 0),
            min_received_elements({8}, given.exchange.from, given.exchange.to, 0));
  const Given gather = exchange_of("a=2", "f32[8@a/2]", "f32[8]");
  EXPECT_EQ(gather.exchange.kind, ReshardKind::kAllGather);
  EXPECT_THAT(recv_regions_of(gather, 0),
              ElementsAre("[0:2] from 0", "[2:4] from 1", "[4:6] from 0", "[6:8] from 1"));
}

TEST(ReshardChunks, PartialValuesAreReducedIntoEachChunk) {
  const Given given = exchange_of("a=2", "f32[4] {partial sum: a}", "f32[4@a/2]");
  EXPECT_THAT(recv_regions_of(given, 1),
              ElementsAre("[1:2] from 0", "[1:2] from 1", "[3:4] from 0", "[3:4] from 1"));
}

}  // namespace
}  // namespace tessera
