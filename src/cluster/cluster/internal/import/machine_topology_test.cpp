#include "cluster/cluster/internal/import/machine_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/error.h"
#include "cluster/cluster/cluster.h"

namespace tessera {
namespace {

using error_testing::message_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

std::string matrix_refusal(std::string_view text) {
  return message_of(ExitCode::kBadConfig, [&] { parse_nvidia_smi(text, "topo.txt"); });
}
std::string xml_refusal(std::string_view text) {
  return message_of(ExitCode::kBadConfig, [&] { parse_nccl_topology(text, "topo.xml"); });
}

/// One machine called n0.
Cluster cluster_of(const MachineTopology& topology, const std::string& preset) {
  ClusterDescription description{"", {device_of(*find_preset(preset))}, {}, {}, {}};
  description.machines.push_back(
      machine_of(topology, preset, find_preset(preset), description.assumed));
  description.machines.front().names = {"n0"};
  return Cluster(description);
}

// ---- nvidia-smi topo -m ----

constexpr std::string_view kDgxA100 =
    "\x1b[4m\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tmlx5_0\tmlx5_1\tCPU Affinity\t"
    "NUMA Affinity\x1b[0m\n"
    "GPU0\t X \tNV12\tNV12\tNV12\tNV12\tNV12\tNV12\tNV12\tPXB\tSYS\t48-63,176-191\t3\n"
    "GPU1\tNV12\t X \tNV12\tNV12\tNV12\tNV12\tNV12\tNV12\tPXB\tSYS\t48-63,176-191\t3\n"
    "GPU2\tNV12\tNV12\t X \tNV12\tNV12\tNV12\tNV12\tNV12\tSYS\tPXB\t16-31,144-159\t1\n"
    "GPU3\tNV12\tNV12\tNV12\t X \tNV12\tNV12\tNV12\tNV12\tSYS\tPXB\t16-31,144-159\t1\n"
    "GPU4\tNV12\tNV12\tNV12\tNV12\t X \tNV12\tNV12\tNV12\tSYS\tSYS\t112-127,240-255\t7\n"
    "GPU5\tNV12\tNV12\tNV12\tNV12\tNV12\t X \tNV12\tNV12\tSYS\tSYS\t112-127,240-255\t7\n"
    "GPU6\tNV12\tNV12\tNV12\tNV12\tNV12\tNV12\t X \tNV12\tSYS\tSYS\t80-95,208-223\t5\n"
    "GPU7\tNV12\tNV12\tNV12\tNV12\tNV12\tNV12\tNV12\t X \tSYS\tSYS\t80-95,208-223\t5\n"
    "mlx5_0\tPXB\tPXB\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t X \tSYS\t\t\n"
    "mlx5_1\tSYS\tSYS\tPXB\tPXB\tSYS\tSYS\tSYS\tSYS\tSYS\t X \t\t\n"
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP\n";

TEST(NvidiaSmiMatrix, LinksBetweenAllPairsBeyondThoseOfADeviceAreASwitch) {
  const MachineTopology topology = parse_nvidia_smi(kDgxA100, "topo.txt");
  EXPECT_EQ(topology.devices, 8);
  EXPECT_EQ(topology.links(0, 7), 12);
  EXPECT_EQ(topology.cards.size(), 2);
  EXPECT_EQ(likely_device(topology), "a100-80g");
  const Cluster cluster = cluster_of(topology, "a100-80g");
  EXPECT_EQ(cluster.link(0, 7).bytes_per_second, 300e9) << "12 NVLinks of 25 GB/s";
  EXPECT_EQ(cluster.level(0, 7), "nvlink");
  EXPECT_THAT(cluster.path(0, 7), testing::SizeIs(2)) << "the port of each of them";
}

TEST(NvidiaSmiMatrix, LinksOfSomePairsAreDirectOverPcie) {
  // Half of a hybrid cube: GPU0 has 2 links to GPU3, one to GPU1, none to GPU2.
  const MachineTopology topology = parse_nvidia_smi(
      "      GPU0 GPU1 GPU2 GPU3 CPU Affinity\n"
      "GPU0   X   NV1  SYS  NV2  0-19\n"
      "GPU1  NV1   X   NV2  SYS  0-19\n"
      "GPU2  SYS  NV2   X   NV1  20-39\n"
      "GPU3  NV2  SYS  NV1   X   20-39\n",
      "topo.txt");
  const Cluster cluster = cluster_of(topology, "v100-32g");
  EXPECT_EQ(cluster.link(0, 3).bytes_per_second, 50e9);
  EXPECT_EQ(cluster.link(0, 1).bytes_per_second, 25e9);
  EXPECT_EQ(cluster.link(0, 2).bytes_per_second, 12e9) << "PCIe of generation 3";
  EXPECT_EQ(cluster.level(0, 3), "direct");
  EXPECT_THAT(cluster.description().assumed, Contains(HasSubstr("an NVLink has 25 GB/s")));
}

TEST(NvidiaSmiMatrix, FourGpusWithFourLinksEachAreAMeshAndNoSwitch) {
  const MachineTopology topology = parse_nvidia_smi(
      "     GPU0 GPU1 GPU2 GPU3\nGPU0 X NV4 NV4 NV4\nGPU1 NV4 X NV4 NV4\n"
      "GPU2 NV4 NV4 X NV4\nGPU3 NV4 NV4 NV4 X\n",
      "topo.txt");
  EXPECT_EQ(likely_device(topology), "a100-80g") << "3 x 4 links";
  EXPECT_EQ(cluster_of(topology, "a100-80g").link(1, 2).bytes_per_second, 100e9);
  EXPECT_EQ(cluster_of(topology, "a100-80g").level(1, 2), "direct");
}

TEST(NvidiaSmiMatrix, PciePathsAreLevels) {
  const MachineTopology topology = parse_nvidia_smi(
      "     GPU0 GPU1 GPU2 GPU3 NIC0 CPU Affinity NUMA Affinity GPU NUMA ID\n"
      "GPU0  X   PIX  SYS  SYS  PIX  0-15  0  N/A\n"
      "GPU1 PIX   X   SYS  SYS  PIX  0-15  0  N/A\n"
      "GPU2 SYS  SYS   X   PXB  SYS  16-31 1  N/A\n"
      "GPU3 SYS  SYS  PXB   X   SYS  16-31 1  N/A\n"
      "NIC0 PIX  PIX  SYS  SYS   X\n",
      "topo.txt");
  EXPECT_EQ(likely_device(topology), "") << "nothing hints at a device";
  const Cluster cluster = cluster_of(topology, "rtx3090");
  EXPECT_EQ(cluster.level(0, 1), "pcie");
  EXPECT_EQ(cluster.level(1, 2), "socket");
  EXPECT_EQ(cluster.link(1, 2).bytes_per_second, 24e9);
  EXPECT_THAT(cluster.description().assumed,
              AllOf(Contains(HasSubstr("PCIe of a device has 24 GB/s")),
                    Contains(HasSubstr("with the rate of one device"))));
}

TEST(NvidiaSmiMatrix, ThreeKindsOfPciePathsAreThreeLevels) {
  // Eight GPUs: pairs below a bridge, four in a NUMA node.
  std::string text = "GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7\n";
  for (int a = 0; a < 8; ++a) {
    text += "GPU" + std::to_string(a);
    for (int b = 0; b < 8; ++b)
      text += a == b ? " X" : a / 2 == b / 2 ? " PIX" : a / 4 == b / 4 ? " NODE" : " SYS";
    text += "\n";
  }
  const Cluster cluster = cluster_of(parse_nvidia_smi(text, "topo.txt"), "rtx3090");
  EXPECT_EQ(cluster.level(0, 1), "pcie");
  EXPECT_EQ(cluster.level(0, 3), "host");
  EXPECT_EQ(cluster.level(0, 4), "socket");
}

TEST(NvidiaSmiMatrix, WithoutASecondNumaNodeTheHostIsOutermost) {
  const Cluster cluster =
      cluster_of(parse_nvidia_smi("GPU0 GPU1 GPU2 GPU3\nGPU0 X PIX PHB PHB\nGPU1 PIX X PHB PHB\n"
                                  "GPU2 PHB PHB X PIX\nGPU3 PHB PHB PIX X\n",
                                  "topo.txt"),
                 "rtx3090");
  EXPECT_EQ(cluster.level(0, 1), "pcie");
  EXPECT_EQ(cluster.level(0, 2), "host");
}

TEST(NvidiaSmiMatrix, GroupsThatAreNoNeighboursAreOneLevel) {
  const MachineTopology topology = parse_nvidia_smi(
      "     GPU0 GPU1 GPU2 GPU3\nGPU0 X SYS PIX SYS\nGPU1 SYS X SYS PIX\n"
      "GPU2 PIX SYS X SYS\nGPU3 SYS PIX SYS X\n",
      "topo.txt");
  EXPECT_EQ(cluster_of(topology, "rtx3090").level(0, 2), "pcie");
  EXPECT_EQ(cluster_of(topology, "rtx3090").level(0, 1), "pcie");
}

TEST(NvidiaSmiMatrix, WhatIsNoMatrixIsRefusedWithItsLine) {
  EXPECT_THAT(matrix_refusal("  GPU0 GPU1\nGPU0 X NV2\nGPU1 NV4 X\n"),
              AllOf(HasSubstr("topo.txt:3: the path from GPU1 to GPU0 is not the one back"),
                    HasSubstr("symmetric")));
  EXPECT_THAT(matrix_refusal("  GPU0 GPU1\nGPU0 X PIX\nGPU1 SYS X\n"), HasSubstr("topo.txt:3"));
  EXPECT_THAT(matrix_refusal("  GPU0 GPU1\nGPU0 X NVX\nGPU1 NV4 X\n"),
              AllOf(HasSubstr("topo.txt:2: the cell of GPU0 and GPU1 is 'NVX'"),
                    HasSubstr("the number of NVLinks")));
  EXPECT_THAT(matrix_refusal("  GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n"), HasSubstr("'NV0'"));
  EXPECT_THAT(matrix_refusal("  GPU0 GPU1\nGPU0 X FOO\nGPU1 FOO X\n"), HasSubstr("'FOO'"));
  EXPECT_THAT(matrix_refusal("  GPU0 GPU1\nGPU0 X NV4\n"), HasSubstr("no row of GPU1"));
  EXPECT_THAT(matrix_refusal("  GPU0 GPU1\nGPU0 X NV4\nGPU0 X NV4\n"),
              AllOf(HasSubstr("topo.txt:3: the row of GPU0 is there twice"), HasSubstr("line 2")));
  EXPECT_THAT(matrix_refusal("  GPU0 GPU1\nGPU0 X\n"), HasSubstr("has 1 cell of 2"));
  EXPECT_THAT(matrix_refusal("  GPU0 GPU0\n"), HasSubstr("two columns are called 'GPU0'"));
  EXPECT_THAT(matrix_refusal("  GPU0 GPU1\nGPU0 X X\n"), HasSubstr("the same GPU"));
  EXPECT_THAT(matrix_refusal("  GPU0\nGPU1 X\n"), HasSubstr("no column for the row of GPU1"));
  EXPECT_THAT(matrix_refusal("  GPU0 NIC0 GPU1\n"), HasSubstr("behind one of a network card"));
  EXPECT_THAT(matrix_refusal(""), HasSubstr("the file is empty"));
}

TEST(MachineTopology, ADeviceWithFewerLinksIsRefused) {
  const MachineTopology topology =
      parse_nvidia_smi("  GPU0 GPU1\nGPU0 X NV12\nGPU1 NV12 X\n", "topo.txt");
  EXPECT_THAT(message_of(ExitCode::kBadConfig, [&] { cluster_of(topology, "v100-32g"); }),
              AllOf(HasSubstr("topo.txt: a GPU has 12 NVLinks"), HasSubstr("has 6")));
}

// ---- NCCL ----

constexpr std::string_view kTwoGpus = R"(<?xml version="1.0"?>
<system version="1">
  <cpu numaid="0" affinity="00000000,0000ffff" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:45:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:46:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:47:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:48:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="200000" port="1" latency="0.000000" gdr="1"/>
          <net name="mlx5_1" dev="1" speed="200000" port="1" latency="0.000000" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ffff0000" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:47:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="80" rank="1" gdr="1">
        <nvlink target="0000:46:00.0" count="4" tclass="0x030200"/>
      </gpu>
    </pci>
  </cpu>
</system>
)";

TEST(NcclTopology, HasGpusLinksAndNetworkCards) {
  const MachineTopology topology = parse_nccl_topology(kTwoGpus, "topo.xml");
  EXPECT_EQ(topology.devices, 2);
  EXPECT_EQ(topology.links(0, 1), 4);
  EXPECT_EQ(topology.path(0, 1), PciPath::kSystem);
  EXPECT_EQ(likely_device(topology), "a100-80g") << "sm 80";
  // 16 GT/s x 16 lanes x 128/130 / 8 = 31.5 GB/s, of which copies reach 12 / 15.75.
  EXPECT_NEAR(topology.pcie_bytes_per_second, 24e9, 0.01e9);
  EXPECT_EQ(network_of(topology).ports, 2);
  EXPECT_EQ(network_of(topology).link.bytes_per_second, 25e9) << "200,000 Mb/s";
  EXPECT_EQ(cluster_of(topology, "a100-80g").link(0, 1).bytes_per_second, 100e9);
}

TEST(NcclTopology, LinksToSwitchesJoinAllGpus) {
  std::string text = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i);
    text += "<pci busid=\"0000:0" + number + ":00.0\"><gpu dev=\"" + number +
            "\" sm=\"90\"><nvlink target=\"0000:d0:00.0\" count=\"9\" tclass=\"0x068000\"/>"
            "<nvlink target=\"0000:d1:00.0\" count=\"9\" tclass=\"0x068000\"/></gpu></pci>";
  }
  const MachineTopology topology = parse_nccl_topology(text + "</cpu></system>", "topo.xml");
  EXPECT_EQ(topology.switch_links, 18);
  const Cluster cluster = cluster_of(topology, "h100-sxm");
  EXPECT_EQ(cluster.link(0, 3).bytes_per_second, 450e9);
}

TEST(NcclTopology, HostileXmlIsRefused) {
  EXPECT_THAT(xml_refusal("<?xml version='1.0'?>\n<!DOCTYPE s [<!ENTITY a SYSTEM "
                          "'file:///etc/passwd'>]>\n<system>&a;</system>"),
              AllOf(HasSubstr("topo.xml:2: the file has a document type"), HasSubstr("DOCTYPE")));
  std::string deep = "<system>";
  for (int i = 0; i < 1000; ++i) deep += "<pci>";
  EXPECT_THAT(xml_refusal(deep), HasSubstr("deeper than 64"));
  EXPECT_THAT(xml_refusal("<system><pci>"), HasSubstr("the file is no XML"));
  EXPECT_THAT(xml_refusal("<system>\n<cpu>\n</system>"), HasSubstr("topo.xml:3"));
  EXPECT_THAT(xml_refusal("<system>&unknown;</system>"), HasSubstr("the file is no XML"));
}

TEST(NcclTopology, WhatIsNoMachineIsRefusedWithItsLine) {
  const auto with = [](const std::string& gpus) {
    return "<system version=\"1\">\n<cpu>\n" + gpus + "</cpu></system>\n";
  };
  const auto gpu = [](const std::string& address, const std::string& attributes,
                      const std::string& inside) {
    return "<pci busid=\"" + address + "\"><gpu " + attributes + ">" + inside + "</gpu></pci>\n";
  };
  EXPECT_THAT(xml_refusal("<html></html>"), HasSubstr("begins with <html>"));
  EXPECT_THAT(xml_refusal(with("")), HasSubstr("has no GPUs"));
  EXPECT_THAT(xml_refusal(with(gpu("a", "sm=\"80\"", ""))),
              AllOf(HasSubstr("topo.xml:3: <gpu> has dev=\"\""), HasSubstr("a number from 0")));
  EXPECT_THAT(xml_refusal(with(gpu("a", "dev=\"x\"", ""))), HasSubstr("dev=\"x\""));
  EXPECT_THAT(xml_refusal(with(gpu("a", "dev=\"0\"", "") + gpu("b", "dev=\"0\"", ""))),
              AllOf(HasSubstr("topo.xml:4: two GPUs are number 0"), HasSubstr("line 3")));
  EXPECT_THAT(xml_refusal(with(gpu("a", "dev=\"0\"", "") + gpu("a", "dev=\"1\"", ""))),
              HasSubstr("or at 'a'"));
  EXPECT_THAT(xml_refusal(with(
                  gpu("a", "dev=\"0\"", "<nvlink target=\"z\" count=\"2\" tclass=\"0x030200\"/>"))),
              HasSubstr("no GPU of the topology has this address"));
  EXPECT_THAT(xml_refusal(with(gpu("a", "dev=\"0\"", "<nvlink target=\"b\" count=\"0\"/>"))),
              HasSubstr("count=\"0\""));
  EXPECT_THAT(xml_refusal(with(gpu("a", "dev=\"0\"", "<nvlink target=\"b\" count=\"2\"/>") +
                               gpu("b", "dev=\"1\"", ""))),
              HasSubstr("GPU 1 names 0 NVLinks to GPU 0, which names 2"));
  EXPECT_THAT(xml_refusal(with("<nic><net name=\"m\" speed=\"-5\"/></nic>")),
              HasSubstr("speed=\"-5\""));
}

}  // namespace
}  // namespace tessera
