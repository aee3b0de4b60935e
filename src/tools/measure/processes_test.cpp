#include "tools/measure/processes.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/cluster/cluster.h"
#include "cluster/cluster/sources.h"

namespace tessera {
namespace {

/// Times of messages on a link.
std::vector<MeasuredTime> on_link(double latency, double rate) {
  std::vector<MeasuredTime> times;
  for (const int64_t bytes : {1000, 100000, 10000000})
    times.push_back({Bytes(bytes), Seconds(latency + static_cast<double>(bytes) / rate)});
  return times;
}

DeviceType core() {
  DeviceType type;
  type.name = "core";
  type.kind = HardwareKind::kCpu;
  type.memory = Bytes(1'000'000'000);
  return type;
}

TEST(Processes, OfTwoHostsHaveALinkForEachLevel) {
  ProcessTimes times{{"a", "a", "b", "b"}, {}, {}};
  for (const auto& [x, y] : pairs_to_measure(times.hosts, 12)) {
    const bool is_inside = times.hosts[x] == times.hosts[y];
    times.pairs.push_back({x, y, is_inside ? on_link(1e-6, 1e10) : on_link(2e-5, 1e9)});
  }
  EXPECT_EQ(times.pairs.size(), 6);
  const ClusterDescription description = cluster_of_processes(times, core(), 16);
  const Cluster cluster(description);
  EXPECT_EQ(cluster.device_count(), 4);
  EXPECT_EQ(cluster.machine_count(), 2);
  EXPECT_EQ(cluster.level(0, 1), "processes");
  EXPECT_EQ(cluster.level(1, 2), "network");
  EXPECT_NEAR(cluster.link(2, 3).latency.value(), 1e-6, 1e-12);
  EXPECT_NEAR(cluster.link(2, 3).bytes_per_second, 1e10, 1e4);
  EXPECT_NEAR(cluster.link(0, 3).latency.value(), 2e-5, 1e-12);
  EXPECT_NEAR(cluster.link(0, 3).bytes_per_second, 1e9, 1e3);
  EXPECT_EQ(cluster.cores(1), 16);
  EXPECT_EQ(places_without_source(description), std::vector<std::string>{});
}

TEST(Processes, ShareABusWhereGathersTakeLongerThanTheirLinks) {
  // Of four processes with links of 1 GB/s each receives 3/4 of 40 MB: 30 ms. On a bus that carries
  // 2 GB/s, which is what two of them send each other at once, all receive 120 MB: 60 ms.
  ProcessTimes times{{"a", "a", "a", "a"}, {{0, 1, on_link(1e-6, 1e9)}}, {}};
  times.gathers = {{Bytes(40'000'000), Seconds(0.03)}};
  const auto level_of = [&] {
    return cluster_of_processes(times, core(), 2).machines.front().levels.front().level;
  };
  EXPECT_EQ(level_of().sharing, LinkSharing::kSwitch);
  times.gathers.front().measured = Seconds(0.06);
  EXPECT_EQ(level_of().sharing, LinkSharing::kBus);
  EXPECT_NEAR(level_of().link.bytes_per_second, 2e9, 1e4);
}

TEST(Processes, AreHostByHost) {
  EXPECT_THROW(cluster_of_processes({{"a", "b", "a"}, {}, {}}, core(), 2), UserError);
}

TEST(PairsToMeasure, AreOfBothLevels) {
  std::vector<std::string> hosts(64, "a");
  std::fill(hosts.begin() + 32, hosts.end(), "b");
  const auto pairs = pairs_to_measure(hosts, 12);
  EXPECT_EQ(pairs.size(), 12);
  EXPECT_EQ(std::ranges::count_if(
                pairs, [&](const auto& pair) { return hosts[pair.first] == hosts[pair.second]; }),
            6);
  EXPECT_EQ(pairs_to_measure({"a", "a", "a"}, 12).size(), 3);
  EXPECT_EQ(pairs_to_measure({"a", "b"}, 12), (std::vector<std::pair<int, int>>{{0, 1}}));
}

}  // namespace
}  // namespace tessera
