// The worked examples of the articles on Paddle and PanGu.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "cluster/mapping/mapping.h"
#include "cluster/mapping/testing/trees.h"

namespace tessera {
namespace {

using namespace mapping_testing;

MachineGroup machines(const std::string& prefix, int count, const std::string& type, int devices,
                      const LinkLevel& inside) {
  MachineGroup made;
  made.names = names(prefix, count);
  made.device = type;
  made.devices = devices;
  made.levels = {{inside, 0}};
  return made;
}

/// Two machines of four GPUs and two of four NPUs.
Cluster gpus_and_npus() {
  ClusterDescription made;
  made.types = {device_type("gpu", HardwareKind::kGpu, 80),
                device_type("npu", HardwareKind::kNpu, 64)};
  made.machines = {machines("g", 2, "gpu", 4, level("nvlink", 200)),
                   machines("x", 2, "npu", 4, level("hccs", 60))};
  made.network = {network(level("ib", 25), 4, 4)};
  return Cluster(made);
}

/// The greedy mapping of the article: the process with most traffic on the device with most
/// compute; then the process that exchanges most with those placed, on the device with the fastest
/// links to its heaviest placed neighbor.
std::vector<DeviceId> greedy_of_the_article(const MappingInput& input, const Cluster& cluster) {
  const int ranks = static_cast<int>(input.needs.size());
  std::vector<std::vector<double>> bytes(ranks, std::vector<double>(ranks, 0));
  for (const RankTraffic& sent : input.traffic) {
    bytes[sent.from][sent.to] += static_cast<double>(sent.bytes.value());
    bytes[sent.to][sent.from] += static_cast<double>(sent.bytes.value());
  }
  std::vector<DeviceId> place(ranks, -1);
  std::vector<bool> used(cluster.device_count(), false);
  const auto total = [&](Rank r) { return std::accumulate(bytes[r].begin(), bytes[r].end(), 0.0); };
  for (int step = 0; step < ranks; ++step) {
    std::tuple<double, double, Rank> next(-1, -1, 0);
    for (Rank r = 0; r < ranks; ++r) {
      if (place[r] >= 0) continue;
      double with_placed = 0;
      for (Rank other = 0; other < ranks; ++other)
        if (place[other] >= 0) with_placed += bytes[r][other];
      next = std::max(next, {with_placed, total(r), -r});
    }
    const Rank rank = -std::get<2>(next);
    Rank heaviest = -1;
    for (Rank other = 0; other < ranks; ++other)
      if (place[other] >= 0 && (heaviest < 0 || bytes[rank][other] > bytes[rank][heaviest]))
        heaviest = other;
    std::pair<double, DeviceId> best(-1, 0);
    for (DeviceId d = 0; d < cluster.device_count(); ++d) {
      if (used[d] || *input.needs[rank].kind != cluster.type(d).kind) continue;
      const double rate = heaviest < 0 ? cluster.type(d).cost.flops_per_second
                                       : cluster.link(place[heaviest], d).bytes_per_second;
      if (rate > best.first) best = {rate, d};
    }
    place[rank] = best.second;
    used[best.second] = true;
  }
  return place;
}

TEST(MappingOfPaddlesExample, PlacesEachProcessOnItsKindAndNeighborsOnOneMachine) {
  // Ranks 0 to 7 need GPUs, 8 to 15 NPUs. Even and odd ranks of each kind exchange much: they fill
  // a machine each. Rank r hands a little to rank r + 8.
  MappingInput input;
  input.needs.resize(16);
  for (Rank r = 0; r < 16; ++r)
    input.needs[r].kind = r < 8 ? HardwareKind::kGpu : HardwareKind::kNpu;
  for (Rank a = 0; a < 16; ++a)
    for (Rank b = 0; b < 16; ++b)
      if (a != b && a / 8 == b / 8 && a % 2 == b % 2)
        input.traffic.push_back({a, b, Bytes(1'000'000'000)});
  for (Rank r = 0; r < 8; ++r) input.traffic.push_back({r, r + 8, Bytes(10'000'000)});
  const Cluster cluster = gpus_and_npus();
  const Mapping mapping = map_ranks(input, cluster);
  for (Rank r = 0; r < 16; ++r) {
    EXPECT_EQ(cluster.type(mapping.devices[r]).kind, *input.needs[r].kind);
    EXPECT_EQ(cluster.machine(mapping.devices[r]),
              cluster.machine(mapping.devices[r < 8 ? r % 2 : 8 + r % 2]));
  }
  // 48 + 48 sends of 1 GB inside of machines (200 and 60 GB/s, 12 a machine), 8 of 10 MB at 25
  // GB/s, and a microsecond a message.
  EXPECT_NEAR(mapping.cost.cost.value(), 24 / 200.0 + 24 / 60.0 + 0.08 / 25 + 56e-6, 1e-9);
  EXPECT_TRUE(mapping.optimal);
}

TEST(MappingOfPaddlesExample, IsNeverWorseThanTheGreedyMapping) {
  const Cluster cluster = gpus_and_npus();
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Dice dice(seed);
    MappingInput input;
    for (int r = 0, gpus = 0, npus = 0; r < 14; ++r) {
      const bool is_gpu = npus == 8 || (gpus < 8 && dice.below(2) == 0);
      ++(is_gpu ? gpus : npus);
      input.needs.push_back({is_gpu ? HardwareKind::kGpu : HardwareKind::kNpu});
    }
    for (int e = 0; e < 30; ++e)
      input.traffic.push_back(
          {dice.below(14), dice.below(14), Bytes(1 + dice.below(1'000'000'000))});
    const double greedy =
        mapping_cost(input, cluster, greedy_of_the_article(input, cluster)).cost.value();
    EXPECT_LE(map_ranks(input, cluster).cost.cost.value(), greedy * (1 + 1e-9)) << seed;
  }
}

// ---- PanGu 200B ----

/// 16 racks of 16 servers of 8 devices.
Cluster racks() {
  ClusterDescription made;
  made.types = {device_type("ascend-910", HardwareKind::kNpu, 32, 2.56e14)};
  made.machines = {machines("n", 256, "ascend-910", 8, level("hccs", 30))};
  made.network = {network(level("leaf", 12.5, LinkSharing::kSwitch, 5), 256, 16),
                  network(level("spine", 6.25, LinkSharing::kSwitch, 10), 16, 16)};
  return Cluster(made);
}

/// 16 stages of 4 layers; in a stage 8 parts of each operator (tp) and 16 of the data (dp). Hidden
/// size 16,384; 131,072 tokens a step for each part of the data, so activations of 4.295 GB in f16.
///
///   tp  4 all-reduces a layer, of which each rank sends 2 x 7/8 of the activations: 120.3 GB
///   pp  activations forward, their gradients backward: 4.295 GB to each neighbor
///   dp  200e9 / (16 x 8) parameters a rank; reduce-scatter and all-gather in f16: 5.859 GB
///
///   dp_weight  the part of dp that does not overlap with computation
MappingInput pangu(double dp_weight) {
  return grid_input({{"dp", 16, AxisPattern::kRing, Bytes(5'859'375'000), 30, dp_weight},
                     {"pp", 16, AxisPattern::kChain, Bytes(4'294'967'296), 16, 1},
                     {"tp", 8, AxisPattern::kRing, Bytes(120'259'084'288), 224, 1}});
}

/// dp over racks, pp over the servers of a rack, tp in a server: row by row.
std::vector<DeviceId> placement_of_the_article() {
  std::vector<DeviceId> devices(2048);
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::vector<std::string> levels(const Mapping& mapping) {
  std::vector<std::string> list;
  for (const LevelTraffic& row : mapping.levels) list.push_back(row.axis + " " + row.level);
  return list;
}

TEST(MappingOfPangu, IsThatOfTheArticleWhereDataParallelismOverlapsWithComputation) {
  const Cluster cluster = racks();
  const MappingInput input = pangu(0.1);
  const Mapping mapping = map_ranks(input, cluster);
  const double article = mapping_cost(input, cluster, placement_of_the_article()).cost.value();
  EXPECT_NEAR(mapping.cost.cost.value(), article, 1e-9 * article);
  EXPECT_EQ(levels(mapping), (std::vector<std::string>{"dp spine", "pp leaf", "tp hccs"}));
  EXPECT_LE(mapping.gap(), 0.05);
}

TEST(MappingOfPangu, DiffersWhereNothingOverlapsSinceARackThenKeepsMoreAsABox) {
  // A rack keeps of 16 stages 2 x 15/16 x 4.295 = 8.05 GB a rank. Of 4 stages x 4 parts of the data
  // it keeps 2 x 3/4 x 4.295 + 3/4 x 5.859 = 10.84 GB: less leaves it.
  const Cluster cluster = racks();
  const MappingInput input = pangu(1);
  const Mapping mapping = map_ranks(input, cluster);
  const double article = mapping_cost(input, cluster, placement_of_the_article()).cost.value();
  EXPECT_LT(mapping.cost.cost.value(), 0.99 * article);
  EXPECT_EQ(levels(mapping),
            (std::vector<std::string>{"dp leaf", "dp spine", "pp leaf", "pp spine", "tp hccs"}));
  EXPECT_NEAR(mapping.levels[1].bytes, 2048 * 5.859375e9 / 4, 1e6);  // of each 4 sends one leaves
  EXPECT_LE(mapping.gap(), 0.05);
}

TEST(MappingOfPangu, TheOverlapThatDecidesIsThatAtWhichBothPlacementsKeepTheSame) {
  // 8.05 = 2 x 7/8 x 4.295 + 1/2 x 5.859 w for 8 stages x 2 parts of the data: w = 0.183.
  const Cluster cluster = racks();
  EXPECT_EQ(levels(map_ranks(pangu(0.17), cluster)).size(), 3U);
  EXPECT_GT(levels(map_ranks(pangu(0.20), cluster)).size(), 3U);
}

}  // namespace
}  // namespace tessera
