// Wrong recv regions are planted, and each is found from the boxes of both ends.
#include "compiler/placement_check/internal/exchange_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "compiler/placement_check/internal/sampled_coordinates.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

struct Given {
  Shape shape;
  Exchange exchange;
};
/// An exchange on dp=2 tp=3 between two placements in the text form.
Given exchange_of(std::string_view from, std::string_view to) {
  const MeshPtr mesh = mesh_of("dp=2 tp=3");
  const DistType a = parse_dist_type(from, mesh), b = parse_dist_type(to, mesh);
  return {a.type.shape, classified(a.type.shape, a.attr, b.attr)};
}

/// The message of the check for these recv regions; "" when it finds nothing.
std::string finding(const Given& given, Rank receiver, const std::vector<RecvRegion>& list) {
  try {
    check_ends(given.exchange);
    check_recv_regions(given.shape, given.exchange, receiver, list);
    return "";
  } catch (const InternalError& error) {
    return error.what();
  }
}

std::vector<RecvRegion> recv_regions_of(const Given& given, Rank receiver) {
  return recv_regions(given.shape, given.exchange, receiver);
}

// ---- what passes ----

const char* const kPlacements[] = {"f32[5, 7]",
                                   "f32[5@dp, 7]",
                                   "f32[5, 7@tp]",
                                   "f32[5@dp, 7@tp]",
                                   "f32[5@dp@tp, 7]",
                                   "f32[5, 7@tp@dp]",
                                   "f32[5@tp, 7@dp]",
                                   "f32[5, 7] {partial sum: dp}",
                                   "f32[5@dp, 7] {partial sum: tp}",
                                   "f32[5, 7] {partial sum: dp, tp}",
                                   "f32[5, 7] {partial max: tp}"};

TEST(ExchangeCheck, PassesTheRecvRegionsOfEveryPairOfPlacements) {
  int pairs = 0;
  for (const char* from : kPlacements)
    for (const char* to : kPlacements) {
      const Given given = exchange_of(from, to);
      const auto keeps_its_reduction = [&] {
        for (const PartialAxis& p : given.exchange.to.partial)
          for (const PartialAxis& q : given.exchange.from.partial)
            if (p.axis == q.axis && p.reduce != q.reduce) return false;
        return true;
      };
      if (given.exchange.from == given.exchange.to || !keeps_its_reduction()) continue;
      ++pairs;
      for (Rank receiver = 0; receiver < 6; ++receiver)
        EXPECT_EQ(finding(given, receiver, recv_regions_of(given, receiver)), "")
            << from << " to " << to;
    }
  EXPECT_GT(pairs, 80);
}

TEST(ExchangeCheck, SamplesTheCornersOfLargeMeshesAndAllOfSmallOnes) {
  EXPECT_EQ(sampled_coordinates(Mesh({4, 8}, {"a", "b"})).size(), 32u);
  const auto sample = sampled_coordinates(Mesh({64, 32}, {"a", "b"}));
  EXPECT_LE(sample.size(), 20u);  // 16 and 4 corners
  EXPECT_THAT(sample, testing::IsSupersetOf({Coordinate{0, 0}, Coordinate{0, 31}, Coordinate{63, 0},
                                             Coordinate{63, 31}}));
  std::set<int64_t> indices;
  for (const Coordinate& coordinate : sample) indices.insert(coordinate[1]);
  EXPECT_GE(indices.size(), 12u) << "the sample has many indices of each axis";
}

// ---- what is found ----

TEST(ExchangeCheck, FindsAPartialValueThatIsNotTaken) {
  const Given given = exchange_of("f32[4, 6] {partial sum: tp}", "f32[4, 6]");
  std::vector<RecvRegion> list = recv_regions_of(given, 4);
  list.pop_back();
  EXPECT_EQ(finding(given, 4, list),
            "internal error: placements: in the exchange from [*, *] {partial sum: tp} to [*, *] "
            "rank 4 takes 2 of 3 partial values of [0:4, 0:6]");
}

TEST(ExchangeCheck, FindsAPartialValueThatIsTakenTwice) {
  const Given given = exchange_of("f32[4, 6] {partial sum: tp}", "f32[4, 6]");
  std::vector<RecvRegion> list = recv_regions_of(given, 4);
  list.push_back(list.back());
  EXPECT_THAT(
      finding(given, 4, list),
      testing::EndsWith("rank 4 takes the same partial value of [0:4, 0:6] twice, from rank 5"));
  // Rank 2 holds a replica of the partial value of rank 5.
  list.back().sender = 2;
  EXPECT_THAT(
      finding(given, 4, list),
      testing::EndsWith("rank 4 takes the same partial value of [0:4, 0:6] twice, from rank 2"));
}

TEST(ExchangeCheck, FindsAnotherReduction) {
  const Given given = exchange_of("f32[4, 6] {partial sum: tp}", "f32[4, 6]");
  std::vector<RecvRegion> list = recv_regions_of(given, 0);
  list.back().reduce = ReduceOp::kMax;
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 takes the max of contributions to [0:4, 0:6]"));
}

TEST(ExchangeCheck, FindsASumWithoutAFirstTerm) {
  const Given given = exchange_of("f32[4, 6] {partial sum: tp}", "f32[4, 6]");
  std::vector<RecvRegion> list = recv_regions_of(given, 0);
  list.front().first = false;
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 reduces into [0:4, 0:6] what nothing was copied to"));
}

TEST(ExchangeCheck, FindsAPartialValueOfAnotherGroup) {
  const Given given = exchange_of("f32[4, 6] {partial sum: dp, tp}", "f32[4, 6] {partial sum: dp}");
  std::vector<RecvRegion> list = recv_regions_of(given, 0);
  list.back().sender += 3;  // the same coordinate on tp, the other one on dp
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 receives from rank 5 a partial value of another group"));
}

TEST(ExchangeCheck, FindsAPartThatTheSenderDoesNotHold) {
  const Given given = exchange_of("f32[4, 6@tp]", "f32[4, 6]");
  std::vector<RecvRegion> list = recv_regions_of(given, 0);
  list.back().sender = 1;
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 receives [0:4, 4:6] from rank 1, which holds [0:4, 2:4]"));
}

TEST(ExchangeCheck, FindsAPartThatIsMissing) {
  const Given given = exchange_of("f32[4, 6@tp]", "f32[4, 6]");
  std::vector<RecvRegion> list = recv_regions_of(given, 0);
  list.pop_back();
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 receives 16 of the 24 elements of [0:4, 0:6]"));
}

TEST(ExchangeCheck, FindsAPartThatIsTakenTwice) {
  const Given given = exchange_of("f32[4, 6@tp]", "f32[4, 6]");
  std::vector<RecvRegion> list = recv_regions_of(given, 0);
  list[1] = list[0];
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 receives [0:4, 0:2] and again [0:4, 0:2]"));
}

TEST(ExchangeCheck, FindsAPartThatIsNotWanted) {
  const Given given = exchange_of("f32[4, 6]", "f32[4@dp, 6]");
  std::vector<RecvRegion> list = recv_regions_of(given, 0);
  list[0].box.ranges[0] = {0, 4};
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 receives [0:4, 0:6] and wants [0:2, 0:6]"));
}

TEST(ExchangeCheck, FindsAWholeTensorThatEveryRankTakesAsItsPartialValue) {
  const Given given = exchange_of("f32[4, 6]", "f32[4, 6] {partial sum: tp}");
  EXPECT_EQ(finding(given, 0, recv_regions_of(given, 0)), "");
  EXPECT_THAT(
      finding(given, 1, recv_regions_of(given, 0)),
      testing::EndsWith("rank 1 receives [0:4, 0:6] where it holds nothing or the identity"));
}

TEST(ExchangeCheck, FindsPartialValuesThatBecomeThoseOfAnotherReduction) {
  const Given given = exchange_of("f32[4, 6] {partial sum: tp}", "f32[4, 6] {partial max: tp}");
  EXPECT_THAT(finding(given, 0, {}),
              testing::EndsWith("turns partial values of one reduction into those of another"));
}

}  // namespace
}  // namespace tessera
