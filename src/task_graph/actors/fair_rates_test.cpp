#include "task_graph/actors/fair_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tessera {
namespace {

using testing::ElementsAre;

constexpr int64_t kGiga = 1'000'000'000;  // units a second: a unit a nanosecond

struct Start {
  int64_t time = 0;
  Flow flow;
};

IndexedVector<ResourceId, Resource> with_capacities(const std::vector<int64_t>& capacities) {
  IndexedVector<ResourceId, Resource> resources;
  for (int64_t capacity : capacities) resources.push_back({"r", capacity});
  return resources;
}

std::vector<ResourceUse> uses(const std::vector<int>& resources) {
  std::vector<ResourceUse> list;
  for (int resource : resources) list.push_back({ResourceId(resource), 1});
  return list;
}

/// The times at which the flows end.  requires  `starts` ordered by time
std::vector<int64_t> ends_of(const std::vector<int64_t>& capacities,
                             const std::vector<Start>& starts) {
  FairRates rates(with_capacities(capacities));
  std::vector<int64_t> ends(starts.size(), -1);
  std::vector<size_t> started(starts.size());  // by flow in flight
  size_t next = 0;
  while (true) {
    const int64_t start = next < starts.size() ? starts[next].time : FairRates::kNever;
    const int64_t now = std::min(start, rates.next_end());
    if (now == FairRates::kNever) return ends;
    for (FlowId flow : rates.end_flows(now)) ends[started[flow.value()]] = now;
    for (; next < starts.size() && starts[next].time == now; ++next)
      started[rates.begin(starts[next].flow, now).value()] = next;
    rates.update(now);
  }
}

TEST(FairRates, AFlowAloneHasTheWholeLink) {
  EXPECT_THAT(ends_of({2 * kGiga}, {{5, {100, uses({0})}}}), ElementsAre(5 + 50));
}

TEST(FairRates, AnEndIsRoundedUpToANanosecond) {
  // 100 units at 3 a nanosecond take 33.3 ns.
  EXPECT_THAT(ends_of({3 * kGiga}, {{0, {100, uses({0})}}}), ElementsAre(34));
}

TEST(FairRates, TwoFlowsShareALinkUntilOneEnds) {
  // Both have 0.5 a nanosecond. After 200 ns the first one has 100, and the second one, which has
  // 200 left, has the whole link.
  EXPECT_THAT(ends_of({kGiga}, {{0, {100, uses({0})}}, {0, {300, uses({0})}}}),
              ElementsAre(200, 400));
}

TEST(FairRates, AFlowThatBeginsLaterSlowsTheOthersFromThenOn) {
  // The first one has moved 60 when the second one begins; both move 40 in 80 ns; then the second
  // one moves its other 10 alone.
  EXPECT_THAT(ends_of({kGiga}, {{0, {100, uses({0})}}, {60, {50, uses({0})}}}),
              ElementsAre(140, 150));
}

TEST(FairRates, AFlowThatIsLimitedElsewhereGivesItsShareUp) {
  // Link 1 lets flow 0 have 0.2 a nanosecond, so flow 1 has 0.8 of link 0.
  EXPECT_THAT(ends_of({kGiga, kGiga / 5}, {{0, {100, uses({0, 1})}}, {0, {400, uses({0})}}}),
              ElementsAre(500, 500));
}

TEST(FairRates, AFlowWithALimitOfItsOwnGivesItsShareUp) {
  EXPECT_THAT(ends_of({kGiga}, {{0, {100, uses({0}), kGiga / 4}}, {0, {300, uses({0})}}}),
              ElementsAre(400, 400));
}

TEST(FairRates, ThreeThreadsShareTwoCores) {
  // Each has two thirds of a core until all end: 600 core-nanoseconds take 900 ns. They are rounded
  // down to 666,666,666 a second, of which a nanosecond is lost.
  const Start thread{0, {600, uses({0}), kGiga}};
  EXPECT_THAT(ends_of({2 * kGiga}, {thread, thread, thread}), ElementsAre(901, 901, 901));
}

TEST(FairRates, AThreadUsesAtMostOneCore) {
  const Start thread{0, {600, uses({0}), kGiga}};
  EXPECT_THAT(ends_of({4 * kGiga}, {thread, thread, thread}), ElementsAre(600, 600, 600));
}

TEST(FairRates, AFlowWithoutResourcesMovesAtItsLimit) {
  EXPECT_THAT(ends_of({}, {{7, {100, {}, kGiga / 2}}}), ElementsAre(207));
}

TEST(FairRates, TheThreeLinksOfBertsekasAndGallager) {
  // Flow 0 passes all three links, each of 1 with another flow, the last one with two others: there
  // all have a third. On the first two links the other flow has two thirds.
  const std::vector<Start> starts = {{0, {100'000, uses({0, 1, 2})}},
                                     {0, {200'000, uses({0})}},
                                     {0, {200'000, uses({1})}},
                                     {0, {100'000, uses({2})}},
                                     {0, {100'000, uses({2})}}};
  EXPECT_THAT(ends_of({kGiga, kGiga, kGiga}, starts),
              ElementsAre(300'001, 300'000, 300'000, 300'001, 300'001));
}

TEST(FairRates, AFlowThatCountsForSeveralTakesTheirShares) {
  // Flow 0 stands for three flows: each of the four has a quarter.
  FairRates rates(with_capacities({kGiga}));
  const Flow three{100, {{ResourceId(0), 3}}}, one{100, {{ResourceId(0), 1}}};
  const FlowId a = rates.begin(three, 0), b = rates.begin(one, 0);
  rates.update(0);
  EXPECT_EQ(rates.rate(a), kGiga / 4);
  EXPECT_EQ(rates.rate(b), kGiga / 4);
}

// ---- random cases against an event loop in floating point that knows no components ----

/// The fair rates of the flows in flight: all grow together; those on a full resource, or at their
/// limits, stop.
std::vector<double> plain_rates(const std::vector<int64_t>& capacities,
                                const std::vector<Start>& starts, const std::vector<double>& left) {
  std::vector<double> rates(starts.size(), 0);
  std::vector<bool> grows(starts.size());
  for (size_t i = 0; i < starts.size(); ++i) grows[i] = left[i] > 0;
  while (std::find(grows.begin(), grows.end(), true) != grows.end()) {
    std::vector<double> room(capacities.begin(), capacities.end()), load(capacities.size(), 0);
    for (size_t i = 0; i < starts.size(); ++i)
      for (const ResourceUse& use : starts[i].flow.uses) {
        room[use.resource.value()] -= rates[i];
        load[use.resource.value()] += grows[i] ? 1 : 0;
      }
    // The step that fills the first resource, or takes the first flow to its limit.
    double step = INFINITY;
    for (size_t r = 0; r < room.size(); ++r)
      if (load[r] > 0) step = std::min(step, room[r] / load[r]);
    for (size_t i = 0; i < starts.size(); ++i)
      if (grows[i]) step = std::min(step, static_cast<double>(starts[i].flow.limit) - rates[i]);
    for (size_t i = 0; i < starts.size(); ++i) {
      if (!grows[i]) continue;
      rates[i] += step;
      const double close = 1e-9 * rates[i];
      bool stops = static_cast<double>(starts[i].flow.limit) - rates[i] <= close;
      for (const ResourceUse& use : starts[i].flow.uses) {
        const size_t r = use.resource.value();
        stops = stops || room[r] - load[r] * step <= close;
      }
      grows[i] = !stops;
    }
  }
  return rates;
}

std::vector<double> plain_ends(const std::vector<int64_t>& capacities,
                               const std::vector<Start>& starts) {
  std::vector<double> left(starts.size(), 0), ends(starts.size(), -1);
  double now = 0;
  for (size_t next = 0;;) {
    const std::vector<double> rates = plain_rates(capacities, starts, left);
    double until = next < starts.size() ? static_cast<double>(starts[next].time) : INFINITY;
    for (size_t i = 0; i < starts.size(); ++i)
      if (left[i] > 0) until = std::min(until, now + left[i] / rates[i] * 1e9);
    if (until == INFINITY) return ends;
    for (size_t i = 0; i < starts.size(); ++i) {
      if (left[i] <= 0) continue;
      left[i] -= rates[i] * (until - now) * 1e-9;
      if (left[i] > 1e-9 * static_cast<double>(starts[i].flow.amount)) continue;
      left[i] = 0;
      ends[i] = until;
    }
    now = until;
    for (; next < starts.size() && static_cast<double>(starts[next].time) <= now; ++next)
      left[next] = static_cast<double>(starts[next].flow.amount);
  }
}

struct RandomFlows {
  std::vector<int64_t> capacities;
  std::vector<Start> starts;
};

RandomFlows random_flows(unsigned seed) {
  std::mt19937 dice(seed);
  const auto roll = [&](int low, int high) {
    return low + static_cast<int>(dice() % static_cast<unsigned>(high - low + 1));
  };
  RandomFlows made;
  const int resources = roll(1, 6);
  for (int i = 0; i < resources; ++i) made.capacities.push_back(roll(1, 8) * kGiga / 2);
  const int flows = roll(1, 25);
  for (int i = 0; i < flows; ++i) {
    Start start{roll(0, 3) * 1'000'000, {roll(1, 40) * 100'000, {}}};
    std::vector<int> all(resources);
    for (int r = 0; r < resources; ++r) all[r] = r;
    std::shuffle(all.begin(), all.end(), dice);
    all.resize(roll(0, std::min(resources, 3)));
    start.flow.uses = uses(all);
    if (all.empty() || roll(0, 2) == 0) start.flow.limit = roll(1, 4) * kGiga / 4;
    made.starts.push_back(start);
  }
  std::stable_sort(made.starts.begin(), made.starts.end(),
                   [](const Start& a, const Start& b) { return a.time < b.time; });
  return made;
}

TEST(FairRates, RandomFlowsEndWhenThePlainEventLoopSays) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const RandomFlows made = random_flows(seed);
    const std::vector<int64_t> ends = ends_of(made.capacities, made.starts);
    const std::vector<double> plain = plain_ends(made.capacities, made.starts);
    // Every end is up to a nanosecond late, and so are those after it. A rate, of at least 1/50 of
    // a unit a nanosecond, is rounded down by at most 25 units a second, which is below 2e-6 of it;
    // flows end within 1 s, so that is less than a nanosecond for each 500 us.
    for (size_t i = 0; i < ends.size(); ++i)
      EXPECT_NEAR(static_cast<double>(ends[i]), plain[i],
                  static_cast<double>(made.starts.size()) + 2e-6 * plain[i])
          << "flow " << i << " of random_flows(" << seed << ")";
  }
}

TEST(FairRates, TheOrderOfTheFlowsDoesNotMatter) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    RandomFlows made = random_flows(seed);
    for (Start& start : made.starts) start.time = 0;
    const std::vector<int64_t> ends = ends_of(made.capacities, made.starts);
    std::reverse(made.starts.begin(), made.starts.end());
    std::vector<int64_t> reversed = ends_of(made.capacities, made.starts);
    std::reverse(reversed.begin(), reversed.end());
    EXPECT_EQ(ends, reversed) << "random_flows(" << seed << ")";
  }
}

TEST(FairRates, CountedFlowsAreAsFastAsListedOnes) {
  // One flow passes both links and two pass the first one: all have a third, rounded down, of a
  // capacity that does not divide by 3.
  for (int64_t capacity : {7, 1000, 12'345'678}) {
    FairRates listed(with_capacities({capacity, capacity + 1})),
        counted(with_capacities({capacity, capacity + 1}));
    const Flow both{100, uses({0, 1})}, first{100, uses({0})}, twice{100, {{ResourceId(0), 2}}};
    const FlowId a = listed.begin(both, 0);
    const FlowId b = listed.begin(first, 0);
    listed.begin(first, 0);
    listed.update(0);
    const FlowId c = counted.begin(both, 0), d = counted.begin(twice, 0);
    counted.update(0);
    EXPECT_EQ(listed.rate(a), counted.rate(c));
    EXPECT_EQ(listed.rate(b), counted.rate(d));
    EXPECT_EQ(listed.rate(b), capacity / 3);
  }
}

}  // namespace
}  // namespace tessera
