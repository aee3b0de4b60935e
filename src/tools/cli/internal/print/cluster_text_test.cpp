#include "tools/cli/internal/print/cluster_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRacks = R"(
[[machine]]
names = "n[0-5]"
device = "a100-80g"
devices = 4
links = [{name = "nvlink", bandwidth = "300 GB/s", latency = "2 us"}]
[[network]]
name = "rack"
size = 3
bandwidth = "25 GB/s"
ports = 8
latency = "5 us"
[[network]]
name = "spine"
oversubscription = 2
latency = "8 us"
)";

Cluster cluster_text_parsed(const std::string& toml) {
  return parse_cluster(parse_toml(toml, "c.toml"), "c.toml");
}

TEST(CliClusterText, DrawsTheLevelsFromTheOutsideInWithTheMachinesOfEachSwitch) {
  EXPECT_THAT(cluster_text(cluster_text_parsed(kRacks)),
              HasSubstr("\nLinks, in one direction\n"
                        "  spine            1/2 of what its switches can send, 8 us\n"
                        "    2 x rack       8 x 25 GB/s a machine, 5 us: n0 .. n2 | n3 .. n5\n"
                        "      6 x machine  n0 .. n5: 4 x a100-80g\n"));
}

TEST(CliClusterText, HasTheMatrixOfAMachineWithDirectLinks) {
  EXPECT_THAT(cluster_text(parse_cluster_line("3xv100")),
              HasSubstr("Links between the devices of n0\n"
                        "  GB/s   0   1   2\n"
                        "     0   -  25  25\n"
                        "     1  25   -  50\n"
                        "     2  25  50   -\n"));
  EXPECT_THAT(cluster_text(cluster_text_parsed(kRacks)),
              Not(HasSubstr("Links between the devices")));
}

TEST(CliClusterText, NamesTheMeshesOfUnlikeMachines) {
  EXPECT_THAT(cluster_text(parse_cluster_line("2x4xv100+2x8xp100")),
              HasSubstr("Meshes of identical devices\n"
                        "  mesh of   machines  devices of each  devices\n"
                        "  v100-16g         2                4  n0/0 .. n1/3\n"
                        "  p100             2                8  n2/0 .. n3/7\n"));
  EXPECT_THAT(cluster_text(cluster_text_parsed(kRacks)),
              Not(HasSubstr("Meshes of identical devices")));
}

TEST(CliClusterText, ListsWhatIsAssumed) {
  EXPECT_THAT(
      cluster_text(cluster_text_parsed(std::string("assumed = [\"PCIe has 12 GB/s\"]\n") + kRacks)),
      HasSubstr("\nAssumed\n  PCIe has 12 GB/s\n"));
  EXPECT_THAT(cluster_text(cluster_text_parsed(kRacks)), Not(HasSubstr("Assumed")));
}

}  // namespace
}  // namespace tessera
