#include "cluster/cluster/sources.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/detect.h"

namespace tessera {
namespace {

ClusterDescription sources_parsed(const std::string& toml) {
  return parse_cluster_description(parse_toml(toml, "c.toml"), "c.toml");
}

const std::string kMachine = R"(
[device.core]
kind = "cpu"
memory = "1 GB"
rates = {copies = "2 GB/s", kernels = {"unary.exp" = {memory = "1 GB/s"}}}
[[machine]]
names = "here"
device = "core"
links = [{name = "bus", bandwidth = "1 GB/s", latency = "2 us"}]
)";

TEST(Sources, OfAPlaceIsThatOfTheNearestPlaceAroundIt) {
  const ClusterDescription cluster = sources_parsed(kMachine + R"(
[sources]
"device.core" = "data sheet"
"device.core.rates" = "measured"
"device.core.rates.kernels.unary.exp" = "measured twice"
"machine[0].links[0].latency" = "assumed"
)");
  EXPECT_EQ(source_of(cluster, "device.core.memory"), "data sheet");
  EXPECT_EQ(source_of(cluster, "device.core.rates.copies"), "measured");
  EXPECT_EQ(source_of(cluster, "device.core.rates.kernels.unary.exp.memory"), "measured twice");
  EXPECT_EQ(source_of(cluster, "device.core.ratesX"), "data sheet") << "another key";
  EXPECT_EQ(source_of(cluster, "machine[0].links[0].latency"), "assumed");
  EXPECT_EQ(source_of(cluster, "machine[0].links[0].bandwidth"), "");
  EXPECT_EQ(sources_parsed(to_toml(to_document(cluster))), cluster);
}

TEST(Sources, NamePlacesOfTheFile) {
  for (const char* place : {"device.gpu.memory", "machine[1]", "machine[0].links[0].speed",
                            "machine[0", "machine[-1]", "device.core.memory.GB", ""}) {
    try {
      sources_parsed(kMachine + "[sources]\n\"" + place + "\" = \"measured\"\n");
      ADD_FAILURE() << place << " was accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
      EXPECT_NE(std::string(error.what()).find("is no place in this file"), std::string::npos);
    }
  }
}

TEST(Sources, OfThisMachineAreThereForEveryValue) {
  EXPECT_EQ(places_without_source(machine_of(detect_hardware("pack:2 numa:1 core:4 pu:1"), "here")),
            std::vector<std::string>{});
  EXPECT_FALSE(places_without_source(sources_parsed(kMachine)).empty());
}

TEST(ClusterFingerprint, IsThatOfTheValues) {
  const ClusterDescription cluster = sources_parsed(kMachine);
  ClusterDescription other = cluster;
  other.name = "renamed";
  other.types.front().source = "a book";
  other.sources["device.core"] = "a book";
  other.assumed = {"something"};
  other.types[0].peaks[DType::kBF16] = 1e15;
  EXPECT_EQ(fingerprint(other), fingerprint(cluster));
  other.types.front().cost.launch = Seconds(3e-6);
  EXPECT_NE(fingerprint(other), fingerprint(cluster)) << "a rate";
  other = cluster;
  other.machines.front().levels.front().level.link.latency = Seconds(3e-6);
  EXPECT_NE(fingerprint(other), fingerprint(cluster)) << "a link";
}

}  // namespace
}  // namespace tessera
