#include "cluster/cluster/import/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/error.h"
#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

using error_testing::message_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::string_view kSwitches =
    "# racks\nSwitchName=s0 Nodes=n[0-1]\nSwitchName=s1 Nodes=n[2-3]\nSwitchName=top "
    "Switches=s[0-1]\n";
constexpr std::string_view kMatrix =
    "     GPU0 GPU1\nGPU0  X   NV12\nGPU1 NV12  X\n\nLegend:\n  X = Self\n";
constexpr std::string_view kXml =
    "<system version=\"1\"><cpu><pci busid=\"a\"><gpu dev=\"0\" sm=\"90\"/></pci><nic>"
    "<net name=\"m0\" speed=\"400000\"/></nic></cpu></system>";
constexpr std::string_view kPaddle =
    R"({"machines": [{"hostname": "a", "devices": [{"global_id": 0, "type": "GPU",
        "model": "A100-SXM4-80GB", "memory": 80}]}]})";

std::string import_refusal(std::string_view text, const std::vector<std::string>& options) {
  return message_of(ExitCode::kBadConfig, [&] { import_cluster(text, "f", options); });
}

/// A cluster file that imports the texts above: topology.conf and topo.txt.
Cluster importing(std::string_view toml) {
  const ClusterReading reading{.imported = [](const std::filesystem::path& file) {
    return std::string(file == "folder/topology.conf" ? kSwitches : kMatrix);
  }};
  return Cluster(
      parse_cluster_description(parse_toml(toml, "folder/c.toml"), "folder/c.toml", reading));
}

TEST(ImportFormat, IsToldByTheContent) {
  EXPECT_EQ(import_format(kSwitches), ImportFormat::kSlurm);
  EXPECT_EQ(import_format("\n\n" + std::string(kMatrix)), ImportFormat::kNvidiaSmi);
  EXPECT_EQ(import_format("<?xml version='1.0'?>\n<!-- x -->\n" + std::string(kXml)),
            ImportFormat::kNccl);
  EXPECT_EQ(import_format(kPaddle), ImportFormat::kPaddle);
  for (const char* text :
       {"", "name = \"two racks\"", "[[machine]]\ncount = 1", "GPU0 is fast.", "<html></html>",
        R"({"mesh": {"dp": 2}})", "# comment\n", "To be, or not to be"})
    EXPECT_EQ(import_format(text), std::nullopt) << text;
}

TEST(ClusterText, IsToldByTheContent) {
  EXPECT_TRUE(is_cluster_text(kSwitches, "any"));
  EXPECT_TRUE(is_cluster_text("[[machine]]\ncount = 1", "c.toml"));
  EXPECT_TRUE(is_cluster_text(R"({"machine": [{"count": 1}]})", "c.json"));
  EXPECT_FALSE(is_cluster_text(R"({"mesh": {"dp": 2}, "device": "fake"})", "plan.json"));
  EXPECT_FALSE(is_cluster_text("[model]\nkind = \"mlp\"", "c.toml"));
  EXPECT_THAT(message_of(ExitCode::kBadConfig, [] { is_cluster_text("[1, 2", "list.json"); }),
              HasSubstr("this is not JSON"));
}

TEST(Import, OfSwitchesTakesMachinesAndNetworkFromOptions) {
  const Cluster cluster(import_cluster(kSwitches, "topology.conf",
                                       {"machine=8xa100-80g", "ib=2x200Gb", "oversubscription=4"}));
  EXPECT_EQ(cluster.device_count(), 32);
  EXPECT_EQ(cluster.link(0, 8).bytes_per_second, 25e9) << "one of two ports of 200 Gb/s";
  EXPECT_EQ(cluster.level(0, 8), "ib");
  EXPECT_EQ(cluster.level(0, 16), "ib-2");
  EXPECT_EQ(cluster.link(0, 16).bytes_per_second, 2 * 50e9 / 4) << "two machines, over 4";
  const Cluster plain(import_cluster(kSwitches, "topology.conf", {"machine=8xa100-80g"}));
  EXPECT_EQ(plain.link(0, 16).bytes_per_second, 25e9) << "the network of the preset";
  EXPECT_THAT(plain.description().assumed,
              AllOf(Contains(HasSubstr("the network is that of machines with a100-80g")),
                    Contains(HasSubstr("carry all that the machines below can send"))));
}

TEST(Import, OfAMachineSaysWhatItAssumes) {
  const Cluster one(import_cluster(kMatrix, "topo.txt"));
  EXPECT_EQ(one.device_count(), 2);
  EXPECT_EQ(one.link(0, 1).bytes_per_second, 300e9);
  EXPECT_THAT(one.description().assumed,
              Contains(HasSubstr("the GPUs are a100-80g, by their number of NVLinks")));
  const Cluster two(import_cluster(kXml, "topo.xml", {"machines=2", "device=h200"}));
  EXPECT_EQ(two.device_count(), 2);
  EXPECT_EQ(two.type(0).name, "h200");
  EXPECT_EQ(two.link(0, 1).bytes_per_second, 50e9) << "the card of 400,000 Mb/s";
}

TEST(Import, ComesBackFromItsDocument) {
  for (const ClusterDescription& description :
       {import_cluster(kSwitches, "topology.conf", {"machine=4xv100"}),
        import_cluster(kMatrix, "topo.txt"), import_cluster(kPaddle, "cluster.json")}) {
    const std::string text = to_toml(to_document(description));
    EXPECT_EQ(parse_cluster(parse_toml(text, "c.toml"), "c.toml").description(), description);
  }
}

TEST(Import, OfAFileThatLacksSomethingNamesTheOption) {
  EXPECT_THAT(import_refusal(kSwitches, {}),
              AllOf(HasSubstr("f has 4 machines and 2 levels of switches, and no devices"),
                    HasSubstr("fix: write 'f;machine=8xa100-80g;ib=400Gb'")));
  EXPECT_THAT(import_refusal("  GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n", {}),
              AllOf(HasSubstr("does not say which devices"), HasSubstr("f;device=a100-80g")));
}

TEST(Import, OptionsThatAreNoneAreRefused) {
  EXPECT_THAT(import_refusal(kMatrix, {"device"}), HasSubstr("an option is a name and a value"));
  EXPECT_THAT(import_refusal(kMatrix, {"device=a100-80"}), HasSubstr("write 'a100-80g'"));
  EXPECT_THAT(import_refusal(kMatrix, {"machines=0"}), HasSubstr("no count"));
  EXPECT_THAT(import_refusal(kMatrix, {"machines=2", "ib=400"}), HasSubstr("no bandwidth"));
  EXPECT_THAT(import_refusal(kMatrix, {"ib=400Gb"}), HasSubstr("no use for it"));
  EXPECT_THAT(import_refusal(kMatrix, {"machines=2", "ib=4Gb", "x=1Gb"}),
              HasSubstr("is the network"));
  EXPECT_THAT(import_refusal(kSwitches, {"machine=8xa100", "oversubscription=0"}),
              HasSubstr("above 0 and at most 1e6"));
  EXPECT_THAT(import_refusal(kSwitches, {"device=a100"}), HasSubstr("no use for it"));
  EXPECT_THAT(import_refusal(kPaddle, {"device=a100"}), HasSubstr("no use for it"));
  EXPECT_THAT(import_refusal("hello", {}), HasSubstr("is no description of a cluster"));
}

TEST(ClusterFile, ImportsSwitchesAndMachines) {
  const Cluster cluster = importing(R"(
[device.card]
preset = "a100-40g"
[[machine]]
names = "n[0-3]"
device = "card"
import = "topo.txt"
[[network]]
name = "ib"
bandwidth = "25 GB/s"
import = "topology.conf"
oversubscription = 2
)");
  EXPECT_EQ(cluster.device_count(), 8);
  EXPECT_EQ(cluster.type(0).memory, Bytes(40'000'000'000));
  EXPECT_EQ(cluster.link(0, 1).bytes_per_second, 300e9);
  EXPECT_EQ(cluster.link(0, 2).bytes_per_second, 25e9);
  EXPECT_EQ(cluster.level(0, 4), "ib-2");
  EXPECT_EQ(cluster.link(0, 4).bytes_per_second, 2 * 25e9 / 2);
}

TEST(ClusterFile, RefusesImportsBesideWhatTheyDescribe) {
  const std::string machine = "[[machine]]\nnames = 'n[0-3]'\ndevice = 'a100'\n";
  const std::string network = "[[network]]\nname = 'ib'\nbandwidth = '1 GB/s'\n";
  const auto refusal_of_file = [](const std::string& toml) {
    return message_of(ExitCode::kBadConfig, [&] { importing(toml); });
  };
  EXPECT_EQ(refusal_of_file(machine + network + "import = 'topology.conf'"), "nothing was thrown");
  EXPECT_THAT(refusal_of_file(machine + "import = 'topo.txt'\ndevices = 2\n"),
              HasSubstr("machine[0] has an import and devices"));
  EXPECT_THAT(refusal_of_file(machine + network + "import = 'topology.conf'\nsize = 2"),
              HasSubstr("network[0] has an import and size"));
  EXPECT_THAT(refusal_of_file(machine + "import = 'topology.conf'\n"),
              HasSubstr("describes no machine"));
  EXPECT_THAT(refusal_of_file(machine + network + "import = 'topo.txt'"),
              HasSubstr("describes no network"));
  EXPECT_THAT(refusal_of_file("[[machine]]\nnames = 'n[0-2]'\ndevice = 'a100'\n" + network +
                              "import = 'topology.conf'"),
              AllOf(HasSubstr("network[0] joins machine 'n3'"), HasSubstr("no machine")));
}

}  // namespace
}  // namespace tessera
