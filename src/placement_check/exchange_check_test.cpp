// Pulls that are planted wrong, each found from the boxes of both ends.
#include "placement_check/exchange_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace tessera {
namespace {

MeshPtr mesh_of(std::string_view text) {
  return std::make_shared<const Mesh>(parse_mesh(text));
}

/// f32[4, 6] on dp=2 tp=3, "(from) -> (to)" in the text form.
struct Given {
  Shape shape;
  Exchange exchange;
};
Given exchange_of(std::string_view from, std::string_view to) {
  const MeshPtr mesh = mesh_of("dp=2 tp=3");
  const DistType a = parse_dist_type(from, mesh), b = parse_dist_type(to, mesh);
  return {a.type.shape, {classify(a.type.shape, a.attr, b.attr), a.attr, b.attr}};
}

/// What the check says of these pulls; "" when it lets them pass.
std::string finding(const Given& given, Rank receiver, const std::vector<Pull>& list) {
  try {
    check_ends(given.exchange);
    check_pulls(given.shape, given.exchange, receiver, list);
    return "";
  } catch (const InternalError& error) {
    return error.what();
  }
}

std::vector<Pull> pulls_of(const Given& given, Rank receiver) {
  return pulls(given.shape, given.exchange, receiver);
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

TEST(ExchangeCheck, PassesThePullsOfEveryPairOfPlacements) {
  int pairs = 0;
  for (const char* from : kPlacements)
    for (const char* to : kPlacements) {
      const Given given = exchange_of(from, to);
      const auto keeps_its_kind = [&] {
        for (const PartialAxis& p : given.exchange.to.partial)
          for (const PartialAxis& q : given.exchange.from.partial)
            if (p.axis == q.axis && p.reduce != q.reduce) return false;
        return true;
      };
      if (given.exchange.from == given.exchange.to || !keeps_its_kind()) continue;
      ++pairs;
      for (Rank receiver = 0; receiver < 6; ++receiver)
        EXPECT_EQ(finding(given, receiver, pulls_of(given, receiver)), "") << from << " to " << to;
    }
  EXPECT_GT(pairs, 80);
}

TEST(ExchangeCheck, SamplesCornersOfLargeMeshesAndAllOfSmallOnes) {
  EXPECT_EQ(sampled_coordinates(Mesh({4, 8}, {"a", "b"})).size(), 32u);
  const auto sample = sampled_coordinates(Mesh({64, 32}, {"a", "b"}));
  EXPECT_LE(sample.size(), 20u);  // 16 and 4 corners
  EXPECT_THAT(sample, testing::IsSupersetOf({Coordinate{0, 0}, Coordinate{0, 31}, Coordinate{63, 0},
                                             Coordinate{63, 31}}));
  std::set<int64_t> places;
  for (const Coordinate& coordinate : sample) places.insert(coordinate[1]);
  EXPECT_GE(places.size(), 12u) << "a sample that stays at few places of an axis sees little of it";
}

// ---- what is found ----

TEST(ExchangeCheck, FindsAnAddendThatIsNotTaken) {
  const Given given = exchange_of("f32[4, 6] {partial sum: tp}", "f32[4, 6]");
  std::vector<Pull> list = pulls_of(given, 4);
  list.pop_back();
  EXPECT_EQ(finding(given, 4, list),
            "internal error: placements: in the exchange from [*, *] {partial sum: tp} to [*, *] "
            "rank 4 takes 2 of 3 addends of "
            "[0:4, 0:6]");
}

TEST(ExchangeCheck, FindsAnAddendThatIsTakenTwice) {
  const Given given = exchange_of("f32[4, 6] {partial sum: tp}", "f32[4, 6]");
  std::vector<Pull> list = pulls_of(given, 4);
  list.push_back(list.back());
  EXPECT_THAT(finding(given, 4, list),
              testing::EndsWith("rank 4 takes the same addend of [0:4, 0:6] twice, from rank 5"));
  // Of a replica: another rank, the same addend.
  list.back().sender = 2;
  EXPECT_THAT(finding(given, 4, list),
              testing::EndsWith("rank 4 takes the same addend of [0:4, 0:6] twice, from rank 2"));
}

TEST(ExchangeCheck, FindsAnotherReduction) {
  const Given given = exchange_of("f32[4, 6] {partial sum: tp}", "f32[4, 6]");
  std::vector<Pull> list = pulls_of(given, 0);
  list.back().reduce = ReduceOp::kMax;
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 takes the max of contributions to [0:4, 0:6]"));
}

TEST(ExchangeCheck, FindsASumWithoutAFirstTerm) {
  const Given given = exchange_of("f32[4, 6] {partial sum: tp}", "f32[4, 6]");
  std::vector<Pull> list = pulls_of(given, 0);
  list.front().first = false;
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 reduces into [0:4, 0:6] what nothing was copied to"));
}

TEST(ExchangeCheck, FindsAnAddendOfAnotherGroup) {
  const Given given = exchange_of("f32[4, 6] {partial sum: dp, tp}", "f32[4, 6] {partial sum: dp}");
  std::vector<Pull> list = pulls_of(given, 0);
  list.back().sender += 3;  // the same place of tp, the other of dp
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 pulls from rank 5 an addend that is not its own"));
}

TEST(ExchangeCheck, FindsAPartThatTheSenderDoesNotHold) {
  const Given given = exchange_of("f32[4, 6@tp]", "f32[4, 6]");
  std::vector<Pull> list = pulls_of(given, 0);
  list.back().sender = 1;
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 pulls [0:4, 4:6] from rank 1, which holds [0:4, 2:4]"));
}

TEST(ExchangeCheck, FindsAPartThatIsMissing) {
  const Given given = exchange_of("f32[4, 6@tp]", "f32[4, 6]");
  std::vector<Pull> list = pulls_of(given, 0);
  list.pop_back();
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 pulls 16 of the 24 elements of [0:4, 0:6]"));
}

TEST(ExchangeCheck, FindsAPartThatComesTwice) {
  const Given given = exchange_of("f32[4, 6@tp]", "f32[4, 6]");
  std::vector<Pull> list = pulls_of(given, 0);
  list[1] = list[0];
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 pulls [0:4, 0:2] and again [0:4, 0:2]"));
}

TEST(ExchangeCheck, FindsAPartThatIsNotWanted) {
  const Given given = exchange_of("f32[4, 6]", "f32[4@dp, 6]");
  std::vector<Pull> list = pulls_of(given, 0);
  list[0].box.ranges[0] = {0, 4};
  EXPECT_THAT(finding(given, 0, list),
              testing::EndsWith("rank 0 pulls [0:4, 0:6] and wants [0:2, 0:6]"));
}

TEST(ExchangeCheck, FindsAWholeTensorThatEveryoneTakesForItsAddend) {
  const Given given = exchange_of("f32[4, 6]", "f32[4, 6] {partial sum: tp}");
  EXPECT_EQ(finding(given, 0, pulls_of(given, 0)), "");
  EXPECT_THAT(finding(given, 1, pulls_of(given, 0)),
              testing::EndsWith("rank 1 pulls [0:4, 0:6] where it holds nothing or the identity"));
}

TEST(ExchangeCheck, FindsAddendsThatBecomeThoseOfAnotherReduction) {
  const Given given = exchange_of("f32[4, 6] {partial sum: tp}", "f32[4, 6] {partial max: tp}");
  EXPECT_THAT(finding(given, 0, {}),
              testing::EndsWith("makes addends of one reduction those of another"));
}

}  // namespace
}  // namespace tessera
