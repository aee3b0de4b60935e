#include "cluster/mapping/internal/needs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/mapping/mapping.h"
#include "cluster/mapping/testing/trees.h"

namespace tessera {
namespace {

using namespace mapping_testing;

MachineGroup needs_machines(const std::string& prefix, int count, const std::string& type,
                            int devices) {
  MachineGroup made;
  made.names = names(prefix, count);
  made.device = type;
  made.devices = devices;
  made.levels = {{level("bus", 100), 0}};
  return made;
}

/// Two machines of four GPUs with 80 GB, of which libraries take 2 GB, and two of two NPUs with
/// 64 GB.
Cluster cards_with_memory() {
  ClusterDescription made;
  made.types = {device_type("gpu-80g", HardwareKind::kGpu, 80, 3e14),
                device_type("npu-64g", HardwareKind::kNpu, 64, 2e14)};
  made.types[0].reserve = Bytes(2'000'000'000);
  made.machines = {needs_machines("g", 2, "gpu-80g", 4), needs_machines("x", 2, "npu-64g", 2)};
  made.network = {network(level("ib", 25), 4, 4)};
  return Cluster(made);
}

MappingInput ranks_with(int count, const DeviceNeed& need) {
  MappingInput made;
  made.needs.assign(count, need);
  return made;
}

std::string message(const MappingInput& input) {
  try {
    map_ranks(input, cards_with_memory());
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kNoPlan);
    EXPECT_FALSE(error.why().empty());
    EXPECT_FALSE(error.fix().empty());
    return error.what_happened() + "\n" + error.why();
  }
  return "";
}

TEST(MappingNeeds, RefusesMoreRanksThanDevices) {
  EXPECT_EQ(message(ranks_with(13, {})),
            "the program has 13 ranks, and the cluster has 12 devices\n"
            "each rank has a device of its own");
  EXPECT_EQ(message(ranks_with(12, {})), "");
}

TEST(MappingNeeds, RefusesAKindThatTheClusterLacks) {
  MappingInput input = ranks_with(3, {});
  input.needs[2].kind = HardwareKind::kCpu;
  EXPECT_EQ(message(input),
            "rank 2 needs a device of the kind 'cpu'\n"
            "the cluster has 8 'gpu-80g' (gpu), 4 'npu-64g' (npu)");
}

TEST(MappingNeeds, RefusesATypeThatTheClusterLacks) {
  DeviceNeed need;
  need.type = "gpu-40g";
  EXPECT_EQ(message(ranks_with(2, need)),
            "2 ranks, of which rank 0 is the first, need a device of the type 'gpu-40g'\n"
            "the cluster has 8 'gpu-80g' (gpu), 4 'npu-64g' (npu)");
}

TEST(MappingNeeds, NamesTheBytesThatAreMissing) {
  // 80 GB less the reserve of 2 GB are 78 GB; 78,000,000,001 bytes are one too many.
  DeviceNeed need;
  need.memory = Bytes(78'000'000'001);
  EXPECT_EQ(message(ranks_with(1, need)),
            "rank 0 needs 72.6 GiB of memory on a device of any type\n"
            "the largest one, 'gpu-80g', offers 72.6 GiB: 1 byte too few");
  need.memory = Bytes(78'000'000'000);
  EXPECT_EQ(message(ranks_with(1, need)), "");
}

TEST(MappingNeeds, NamesTheBytesThatAreMissingOnTheKindThatIsNeeded) {
  DeviceNeed need;
  need.kind = HardwareKind::kNpu;
  need.memory = Bytes(70'000'000'000);
  EXPECT_EQ(message(ranks_with(1, need)),
            "rank 0 needs 65.2 GiB of memory on a device of the kind 'npu'\n"
            "the largest one, 'npu-64g', offers 59.6 GiB: 6,000,000,000 bytes too few");
}

TEST(MappingNeeds, RefusesComputeThatNoDeviceHas) {
  DeviceNeed need;
  need.flops_per_second = 5e14;
  EXPECT_EQ(message(ranks_with(1, need)),
            "rank 0 needs 0.5 Pflop/s on a device of any type\n"
            "the fastest one, 'gpu-80g', does 0.3 Pflop/s");
}

TEST(MappingNeeds, RefusesRanksThatTogetherNeedMoreDevicesThanFit) {
  // Nine ranks need more than the 64 GB of an NPU, and there are eight GPUs.
  MappingInput input = ranks_with(9, {});
  for (DeviceNeed& need : input.needs) need.memory = Bytes(70'000'000'000);
  EXPECT_EQ(message(input),
            "9 ranks need devices of the types 'gpu-80g'\n"
            "the cluster has 8 of them, and each rank has a device of its own: 1 device too few");
}

TEST(MappingNeeds, LeavesDevicesThatFewFitToThoseThatNeedThem) {
  // Eight ranks need GPUs; the four that fit anywhere come first and must go to the NPUs.
  MappingInput input = ranks_with(12, {});
  for (Rank rank = 4; rank < 12; ++rank) input.needs[rank].kind = HardwareKind::kGpu;
  const Cluster cluster = cards_with_memory();
  const Mapping mapping = map_ranks(input, cluster);
  for (Rank rank = 0; rank < 4; ++rank)
    EXPECT_EQ(cluster.type(mapping.devices[rank]).name, "npu-64g");
}

}  // namespace
}  // namespace tessera
