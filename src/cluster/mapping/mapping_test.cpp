#include "cluster/mapping/mapping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "cluster/mapping/internal/bounds.h"
#include "cluster/mapping/internal/device_tree.h"
#include "cluster/mapping/internal/needs.h"
#include "cluster/mapping/testing/trees.h"

namespace tessera {
namespace {

using namespace mapping_testing;

/// The least cost over all mappings that meet the needs, by definition; prices from Cluster::link.
double min_of_all(const MappingInput& input, const Cluster& cluster) {
  const int ranks = static_cast<int>(input.needs.size());
  std::vector<DeviceId> place(ranks, -1);
  std::vector<bool> used(cluster.device_count(), false);
  double smallest = 1e300;
  const auto price = [&](const RankTraffic& sent) {
    const LinkCost out = cluster.link(place[sent.from], place[sent.to]);
    const LinkCost back = cluster.link(place[sent.to], place[sent.from]);
    return sent.weight * (static_cast<double>(sent.bytes.value()) /
                              std::min(out.bytes_per_second, back.bytes_per_second) +
                          sent.messages * out.latency.value());
  };
  const std::function<void(Rank, double)> choose = [&](Rank rank, double cost) {
    if (cost >= smallest) return;
    if (rank == ranks) {
      smallest = cost;
      return;
    }
    const DeviceNeed& need = input.needs[rank];
    for (DeviceId d = 0; d < cluster.device_count(); ++d) {
      const DeviceType& type = cluster.type(d);
      if (used[d] || (need.kind && *need.kind != type.kind) ||
          (!need.type.empty() && need.type != type.name) ||
          need.memory.value() > type.memory.value() - type.reserve.value() ||
          need.flops_per_second > type.cost.flops_per_second)
        continue;
      used[d] = true;
      place[rank] = d;
      double added = 0;
      for (const RankTraffic& sent : input.traffic)
        if (std::max(sent.from, sent.to) == rank && sent.from != sent.to) added += price(sent);
      choose(rank + 1, cost + added);
      used[d] = false;
    }
  };
  choose(0, 0);
  return smallest;
}

/// Machines of two types with levels, direct links and networks at random; at most 8 devices.
Cluster random_cluster(Dice& dice) {
  ClusterDescription made;
  made.types = {device_type("a", HardwareKind::kGpu, 80),
                device_type("b", HardwareKind::kGpu, 40, 5e13),
                device_type("c", HardwareKind::kNpu, 64)};
  int devices = 0, machines = 0;
  while (devices < 8 && (machines == 0 || dice.below(4) > 0)) {
    MachineGroup machine;
    machine.names = {"m" + std::to_string(machines)};
    machine.device = made.types[dice.below(3)].name;
    machine.devices = std::min(8 - devices, 1 << dice.below(3));
    const auto sharing = static_cast<LinkSharing>(dice.below(3));
    if (machine.devices == 4 && dice.below(2) == 0)
      machine.levels.push_back({level("pair", 50.0 * (1 + dice.below(4))), 2});
    if (machine.devices > 1)
      machine.levels.push_back({level("in", 20.0 * (1 + dice.below(6)), sharing), 0});
    if (machine.devices == 4 && dice.below(2) == 0)
      machine.direct = {{0, 1, {Seconds(1e-6), 4e11}},
                        {0, 2, {Seconds(1e-6), 2e11}},
                        {1, 3, {Seconds(1e-6), 2e11}},
                        {2, 3, {Seconds(1e-6), 4e11}}};
    devices += machine.devices;
    made.machines.push_back(machine);
    ++machines;
  }
  int children = machines;
  while (children > 1) {
    const bool is_last = dice.below(2) == 0;
    NetworkLevel joined = network(
        level("net", 2.0 * (1 + dice.below(10)), static_cast<LinkSharing>(dice.below(3)), 5),
        children, is_last ? children : 2);
    if (!made.network.empty() && dice.below(2) == 0) joined.oversubscription = 2;
    children = 1 + joined.switch_of_child.back();
    made.network.push_back(joined);
  }
  if (devices > 2 && dice.below(4) == 0)
    made.direct.push_back({0, devices - 1, {Seconds(3e-6), 6e10}});
  return Cluster(made);
}

MappingInput random_input(Dice& dice, const Cluster& cluster) {
  MappingInput made;
  // The needs are those of devices, so that they can be met.
  std::vector<DeviceId> devices(cluster.device_count());
  std::iota(devices.begin(), devices.end(), 0);
  for (size_t i = devices.size(); i > 1; --i)
    std::swap(devices[i - 1], devices[dice.below(static_cast<int>(i))]);
  const int ranks = 1 + dice.below(cluster.device_count());
  for (Rank rank = 0; rank < ranks; ++rank) {
    const DeviceType& type = cluster.type(devices[rank]);
    DeviceNeed need;
    switch (dice.below(6)) {
      case 0: need.kind = type.kind; break;
      case 1: need.type = type.name; break;
      case 2: need.memory = type.memory; break;
      case 3: need.flops_per_second = type.cost.flops_per_second; break;
      default: break;
    }
    made.needs.push_back(need);
  }
  for (Rank a = 0; a < ranks; ++a)
    for (Rank b = 0; b < ranks; ++b)
      if (a != b && dice.below(3) == 0)
        made.traffic.push_back({a, b, Bytes(1 + dice.below(1'000'000'000)), 1.0 * dice.below(100),
                                dice.below(4) == 0 ? 0.5 : 1.0});
  return made;
}

MappingInput mapping_renamed(const MappingInput& input, Dice& dice) {
  std::vector<Rank> name(input.needs.size());
  std::iota(name.begin(), name.end(), 0);
  for (size_t i = name.size(); i > 1; --i)
    std::swap(name[i - 1], name[dice.below(static_cast<int>(i))]);
  MappingInput made = input;
  for (size_t i = 0; i < name.size(); ++i) made.needs[name[i]] = input.needs[i];
  for (RankTraffic& sent : made.traffic) {
    sent.from = name[sent.from];
    sent.to = name[sent.to];
  }
  // The order of the list says nothing, either.
  std::reverse(made.traffic.begin(), made.traffic.end());
  if (made.grid) {
    if (made.grid->ranks.empty()) {
      made.grid->ranks.resize(name.size());
      std::iota(made.grid->ranks.begin(), made.grid->ranks.end(), 0);
    }
    for (Rank& rank : made.grid->ranks) rank = name[rank];
  }
  return made;
}

void expect_valid(const Mapping& mapping, const MappingInput& input, const Cluster& cluster) {
  std::vector<bool> used(cluster.device_count(), false);
  ASSERT_EQ(mapping.devices.size(), input.needs.size());
  for (size_t rank = 0; rank < mapping.devices.size(); ++rank) {
    const DeviceId d = mapping.devices[rank];
    ASSERT_FALSE(used.at(d)) << "two ranks on device " << d;
    used[d] = true;
    const DeviceType& type = cluster.type(d);
    const DeviceNeed& need = input.needs[rank];
    EXPECT_TRUE(!need.kind || *need.kind == type.kind);
    EXPECT_TRUE(need.type.empty() || need.type == type.name);
    EXPECT_LE(need.memory.value(), type.memory.value() - type.reserve.value());
    EXPECT_LE(need.flops_per_second, type.cost.flops_per_second);
  }
}

TEST(MappingExact, EqualsTheBestOfAllPermutationsOfRandomGraphsOnRandomClusters) {
  int heterogeneous = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    const Cluster cluster = random_cluster(dice);
    const MappingInput input = random_input(dice, cluster);
    heterogeneous += cluster.groups().size() > 1 ? 1 : 0;
    const Mapping mapping = map_ranks(input, cluster);
    const double smallest = min_of_all(input, cluster);
    expect_valid(mapping, input, cluster);
    EXPECT_TRUE(mapping.optimal);
    EXPECT_NEAR(mapping.cost.cost.value(), smallest, 1e-9 * smallest) << "seed " << seed;
  }
  EXPECT_GT(heterogeneous, 200);
}

TEST(MappingBound, OfAnyTrafficIsBelowTheBestOfAllPermutations) {
  int unlike = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Dice dice(1000 + seed);
    const Cluster cluster = random_cluster(dice);
    const MappingInput input = random_input(dice, cluster);
    MappingProblem problem{RankGraph(static_cast<int>(input.needs.size()), input.traffic),
                           DeviceTree(cluster),
                           std::vector<int>(input.needs.size()),
                           {}};
    for (const NeedClass& need : checked_needs(input, cluster)) {
      for (Rank rank : need.ranks) problem.need[rank] = static_cast<int>(problem.fits.size());
      problem.fits.push_back(need.fits);
    }
    unlike += problem.fits.size() > 1 ? 1 : 0;
    EXPECT_LE(edges_bound(problem), min_of_all(input, cluster) * (1 + 1e-9)) << "seed " << seed;
  }
  EXPECT_GT(unlike, 100);
}

TEST(DeviceTreeTest, LinksAreThoseOfTheClusterInTheSlowerDirection) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    const Cluster cluster = random_cluster(dice);
    const DeviceTree tree(cluster);
    for (Place a = 0; a < tree.size(); ++a)
      for (Place b = 0; b < tree.size(); ++b) {
        if (a == b) continue;
        const LinkCost out = cluster.link(tree.device(a), tree.device(b));
        const LinkCost back = cluster.link(tree.device(b), tree.device(a));
        EXPECT_NEAR(
            tree.link(a, b).per_byte * std::min(out.bytes_per_second, back.bytes_per_second), 1,
            1e-12)
            << "seed " << seed;
        EXPECT_EQ(tree.link(a, b).per_message, out.latency.value());
      }
  }
}

// ---- large trees ----

GridAxis mapping_axis(const std::string& name, int size, AxisPattern pattern, int64_t megabytes) {
  return {name, size, pattern, Bytes(megabytes * 1'000'000), 10, 1};
}

/// Each rank exchanges data with those at its place in the groups beside its own, the more the
/// further in.
MappingInput nested_cliques(const std::vector<int>& fans) {
  const int ranks = std::accumulate(fans.begin(), fans.end(), 1, std::multiplies<>());
  MappingInput made;
  made.needs.resize(ranks);
  int stride = 1;
  int64_t bytes = 64'000'000;
  for (int fan : fans) {
    for (Rank rank = 0; rank < ranks; ++rank)
      for (int other = 0; other < fan; ++other) {
        const int own = rank / stride % fan;
        if (own != other)
          made.traffic.push_back({rank, rank + (other - own) * stride, Bytes(bytes), 1, 1});
      }
    stride *= fan;
    bytes /= 16;
  }
  return made;
}

TEST(MappingOfGrids, AxesThatFillLevelsAreProvedOptimal) {
  // tp in machines of 8, pp in racks of 8, dp across: each axis is as large as its level.
  const Cluster cluster(tree_of({8, 8, 64}));
  const MappingInput input = grid_input({mapping_axis("dp", 64, AxisPattern::kRing, 100),
                                         mapping_axis("pp", 8, AxisPattern::kChain, 800),
                                         mapping_axis("tp", 8, AxisPattern::kRing, 5000)});
  const Mapping mapping = map_ranks(input, cluster);
  expect_valid(mapping, input, cluster);
  EXPECT_TRUE(mapping.optimal);
  EXPECT_EQ(mapping.method, MappingMethod::kGrid);
  ASSERT_EQ(mapping.levels.size(), 3U);
  EXPECT_EQ(mapping.levels[0].axis + " " + mapping.levels[0].level, "dp l2");
  EXPECT_EQ(mapping.levels[1].axis + " " + mapping.levels[1].level, "pp l1");
  EXPECT_EQ(mapping.levels[2].axis + " " + mapping.levels[2].level, "tp l0");
}

struct GridCase {
  std::vector<int> fans;
  std::vector<GridAxis> axes;
};

TEST(MappingOfGrids, ArePlacedWithinFivePercentOfTheBoundOnTreesOf4096Devices) {
  const auto ring = AxisPattern::kRing;
  const auto chain = AxisPattern::kChain;
  const auto all = AxisPattern::kAllPairs;
  const std::vector<GridCase> cases = {
      {{8, 512},
       {mapping_axis("dp", 64, ring, 400), mapping_axis("pp", 8, chain, 100),
        mapping_axis("tp", 8, ring, 3000)}},
      {{8, 16, 32},
       {mapping_axis("dp", 128, ring, 400), mapping_axis("pp", 8, chain, 100),
        mapping_axis("tp", 4, ring, 900)}},
      {{8, 8, 8, 8},
       {mapping_axis("dp", 64, ring, 50), mapping_axis("pp", 16, chain, 100),
        mapping_axis("tp", 4, ring, 900)}},
      {{8, 4, 16, 8},
       {mapping_axis("dp", 32, ring, 300), mapping_axis("cp", 4, ring, 600),
        mapping_axis("pp", 4, chain, 90), mapping_axis("tp", 8, ring, 3000)}},
      {{4, 16, 64}, {mapping_axis("dp", 256, ring, 300), mapping_axis("ep", 16, all, 20)}},
  };
  for (const GridCase& one : cases) {
    const Cluster cluster(tree_of(one.fans));
    const MappingInput input = grid_input(one.axes);
    const Mapping mapping = map_ranks(input, cluster);
    expect_valid(mapping, input, cluster);
    EXPECT_LE(mapping.bound.value(), mapping.cost.cost.value() * (1 + 1e-12));
    EXPECT_LE(mapping.gap(), 0.05) << mapping_report(mapping);
  }
}

/// The cost of the mapping that the ranks had before they were renamed.
double cost_of_order(const MappingInput& input, const Cluster& cluster) {
  std::vector<DeviceId> same(input.needs.size());
  std::iota(same.begin(), same.end(), 0);
  return mapping_cost(input, cluster, same).cost.value();
}

TEST(MappingOfGraphs, FindsNestedGroupsOfRanksInRandomOrder) {
  // Cliques of cliques as the levels are, 16 times as much traffic on each level as on the next: no
  // mapping is cheaper than the one from which the traffic was made.
  for (const std::vector<int>& fans :
       std::vector<std::vector<int>>{{8, 16}, {8, 8, 8}, {4, 4, 4, 4}, {8, 8, 8, 8}}) {
    Dice dice(7);
    const Cluster cluster(tree_of(fans));
    const MappingInput planted = nested_cliques(fans);
    const MappingInput input = mapping_renamed(planted, dice);
    const Mapping mapping = map_ranks(input, cluster);
    const double smallest = cost_of_order(planted, cluster);
    expect_valid(mapping, input, cluster);
    EXPECT_NEAR(mapping.cost.cost.value(), smallest, 1e-9 * smallest);
  }
}

TEST(MappingOfGraphs, IsAsGoodWithoutTheGridAsWithIt) {
  const Cluster cluster(tree_of({8, 16, 32}));
  const MappingInput grid = grid_input({mapping_axis("dp", 128, AxisPattern::kRing, 400),
                                        mapping_axis("pp", 8, AxisPattern::kChain, 100),
                                        mapping_axis("tp", 4, AxisPattern::kRing, 900)});
  MappingInput traffic;
  traffic.needs = grid.needs;
  for (int i = 0; i < 3; ++i)
    for (const RankTraffic& sent : axis_traffic(*grid.grid, i)) traffic.traffic.push_back(sent);
  Dice dice(5);
  const double with = map_ranks(grid, cluster).cost.cost.value();
  const double without = map_ranks(mapping_renamed(traffic, dice), cluster).cost.cost.value();
  EXPECT_LE(without, 1.05 * with);
}

TEST(MappingOfGraphs, CostsTheSameWhateverTheNumbersOfRanks) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Dice dice(seed);
    const Cluster cluster(tree_of({4, 4, 4}));
    MappingInput input;
    input.needs.resize(40 + dice.below(25));
    const int ranks = static_cast<int>(input.needs.size());
    for (int e = 0; e < 4 * ranks; ++e)
      input.traffic.push_back(
          {dice.below(ranks), dice.below(ranks), Bytes(1 + dice.below(1'000'000'000)), 1, 1});
    const Mapping first = map_ranks(input, cluster);
    const Mapping again = map_ranks(input, cluster);
    EXPECT_EQ(first.devices, again.devices);
    const double cost = first.cost.cost.value();
    EXPECT_NEAR(map_ranks(mapping_renamed(input, dice), cluster).cost.cost.value(), cost,
                1e-9 * cost);
  }
}

TEST(MappingOfGrids, CostTheSameWhateverTheNumbersOfRanks) {
  const Cluster cluster(tree_of({8, 4, 4}));
  const MappingInput grid = grid_input({mapping_axis("dp", 8, AxisPattern::kRing, 400),
                                        mapping_axis("pp", 4, AxisPattern::kChain, 100),
                                        mapping_axis("tp", 4, AxisPattern::kRing, 900)});
  const double cost = map_ranks(grid, cluster).cost.cost.value();
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Dice dice(seed);
    EXPECT_NEAR(map_ranks(mapping_renamed(grid, dice), cluster).cost.cost.value(), cost,
                1e-9 * cost);
  }
}

TEST(MappingOfGraphs, KeepsHeavyRingsInMachinesOfTheirKindInLargeClusters) {
  // 32 machines of 8 GPUs and 32 of 8 NPUs in alternating order, in racks of 8 machines.
  ClusterDescription made = tree_of({8, 8, 8});
  made.types.push_back(device_type("b", HardwareKind::kNpu, 64));
  const std::vector<std::string> all = made.machines[0].names;
  const MachineGroup machine = made.machines[0];
  made.machines.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    made.machines.push_back(machine);
    made.machines.back().names = {all[i]};
    made.machines.back().device = i % 2 == 0 ? "a" : "b";
  }
  const Cluster cluster(made);
  MappingInput planted;
  for (Rank r = 0; r < 512; ++r) {
    planted.needs.push_back({r < 256 ? HardwareKind::kGpu : HardwareKind::kNpu});
    planted.traffic.push_back({r, r / 8 * 8 + (r + 1) % 8, Bytes(1'000'000'000)});
    if (r < 256) planted.traffic.push_back({r, r + 256, Bytes(1'000'000)});
  }
  Dice dice(3);
  const MappingInput input = mapping_renamed(planted, dice);
  const Mapping mapping = map_ranks(input, cluster);
  expect_valid(mapping, input, cluster);
  for (const RankTraffic& sent : input.traffic)
    if (sent.bytes.value() == 1'000'000'000) {
      EXPECT_EQ(cluster.machine(mapping.devices[sent.from]),
                cluster.machine(mapping.devices[sent.to]));
    }
}

TEST(MappingOfGraphs, OfRanksThatExchangeNothingCostsNothing) {
  const Cluster cluster(tree_of({4, 2}));
  MappingInput input;
  input.needs.resize(5);
  const Mapping mapping = map_ranks(input, cluster);
  expect_valid(mapping, input, cluster);
  EXPECT_TRUE(mapping.optimal);
  EXPECT_EQ(mapping.cost.cost, Seconds(0));
  EXPECT_TRUE(map_ranks({}, cluster).devices.empty());
}

TEST(MappingReport, NamesCostProofBusiestChannelAndLevels) {
  // 1 GB at 100 GB/s is 10 ms; a message takes a microsecond.
  const Cluster cluster(tree_of({2}, 100));
  MappingInput input;
  input.needs.resize(2);
  input.traffic = {{0, 1, Bytes(1'000'000'000)}};
  EXPECT_EQ(mapping_report(map_ranks(input, cluster)),
            "cost 10 ms of links a step, which is the least; found by: greedy\n"
            "busiest channel: n0/0 l0 out, 10 ms\n"
            "other    l0              1.000 GB  10 ms\n");
}

// ---- lower bounds of grids ----

TEST(MappingBound, OfGridsIsBelowTheBestOfAllPermutationsOnUnlikeTrees) {
  const std::vector<std::vector<GridAxis>> grids = {
      {mapping_axis("a", 2, AxisPattern::kRing, 10), mapping_axis("b", 4, AxisPattern::kRing, 7)},
      {mapping_axis("a", 2, AxisPattern::kChain, 10),
       mapping_axis("b", 3, AxisPattern::kAllPairs, 7)},
      {mapping_axis("a", 4, AxisPattern::kChain, 10),
       mapping_axis("b", 2, AxisPattern::kAllPairs, 20)},
      {mapping_axis("a", 7, AxisPattern::kRing, 10)}};
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Dice dice(seed);
    const Cluster cluster = random_cluster(dice);
    for (const auto& axes : grids) {
      const MappingInput grid = grid_input(axes);
      if (std::ssize(grid.needs) > cluster.device_count()) continue;
      MappingInput traffic;
      traffic.needs = grid.needs;
      for (size_t i = 0; i < axes.size(); ++i)
        for (const RankTraffic& sent : axis_traffic(*grid.grid, static_cast<int>(i)))
          traffic.traffic.push_back(sent);
      const double smallest = min_of_all(traffic, cluster);
      EXPECT_LE(grid_bound(*grid.grid, levels_of(DeviceTree(cluster))), smallest * (1 + 1e-9));
      const Mapping mapping = map_ranks(grid, cluster);
      EXPECT_NEAR(mapping.cost.cost.value(), smallest, 1e-9 * smallest) << "seed " << seed;
      expect_valid(mapping, grid, cluster);
    }
  }
}

}  // namespace
}  // namespace tessera
