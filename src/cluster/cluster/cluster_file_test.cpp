#include "cluster/cluster/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/error.h"
#include "cluster/cluster/internal/presets.h"

namespace tessera {
namespace {

using error_testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Cluster parsed(std::string_view toml) {
  return parse_cluster(parse_toml(toml, "cluster.toml"), "cluster.toml");
}

std::string refusal(std::string_view toml) {
  return message_of(ExitCode::kBadConfig, [&] { parsed(toml); });
}
std::string line_refusal(std::string_view line) {
  return message_of(ExitCode::kBadConfig, [&] { parse_cluster_line(line); });
}

constexpr std::string_view kTwoRacks = R"(
name = "two racks"
[device.a100]
preset = "a100-80g"
memory = "81 GB"
rates = {launch = "6 us", matmul = {bf16 = "200 Tflop/s"}}
peaks = {bf16 = "300 Tflop/s"}
[[machine]]
names = "n[0-3]"
device = "a100"
devices = 8
links = [{name = "nvlink", bandwidth = "300 GB/s", latency = "3 us"}]
direct = [{devices = [0, 7], bandwidth = "50 GB/s"}]
[[machine]]
count = 2
device = "v100-32g"
devices = 4
links = [{name = "pcie", bandwidth = "12 GB/s", sharing = "bus"}]
[[network]]
name = "ib"
switches = ["n[0-1],n4", "n[2-3],n5"]
bandwidth = "200 Gb/s"
ports = 8
[[network]]
name = "spine"
oversubscription = 2
[[link]]
between = ["n0/3", "n4/1"]
bandwidth = "1 GB/s"
latency = "9 us"
)";

TEST(ClusterFile, DescribesDevicesMachinesAndLinks) {
  const Cluster cluster = parsed(kTwoRacks);
  EXPECT_EQ(cluster.device_count(), 40);
  EXPECT_EQ(cluster.machine_count(), 6);
  EXPECT_EQ(cluster.type(0).memory, Bytes(81'000'000'000));
  EXPECT_EQ(cluster.type(0).cost.launch, Seconds(6e-6));
  EXPECT_EQ(cluster.type(0).cost.flops_rate(OperationClass::kMatmul, DType::kBF16), 2e14);
  EXPECT_EQ(cluster.type(0).cost.flops_rate(OperationClass::kMatmul, DType::kF16), 0.8 * 312e12)
      << "what the file does not name is as in the preset";
  EXPECT_EQ(cluster.type(32).name, "v100-32g") << "a preset needs no description";
  EXPECT_EQ(cluster.link(0, 1), (LinkCost{Seconds(3e-6), 300e9}));
  EXPECT_EQ(cluster.link(8, 15), (LinkCost{Seconds(2e-6), 50e9}));
  EXPECT_EQ(cluster.link(0, 8).bytes_per_second, 25e9) << "each device has one of eight ports";
  EXPECT_EQ(cluster.level(0, 8), "ib");
  EXPECT_EQ(cluster.level(0, 33), "ib") << "n4 is below the switch of n0";
  EXPECT_EQ(cluster.level(0, 16), "spine");
  EXPECT_EQ(cluster.link(3, 33), (LinkCost{Seconds(9e-6), 1e9}));
}

TEST(ClusterFile, ComesBackFromItsDocument) {
  for (const Cluster& cluster :
       {parsed(kTwoRacks), parse_cluster_line("2x4xv100+2x8xp100"), parse_cluster_line("cpu:3")}) {
    const std::string text = to_json(to_document(cluster.description()), 2);
    EXPECT_EQ(parse_cluster(parse_json(text, "c.json"), "c.json").description(),
              cluster.description());
  }
}

TEST(ClusterFile, EveryValueHasItsUnit) {
  const auto with = [](const std::string& device) {
    return "[device.d]\n" + device + "\n[[machine]]\ncount = 1\ndevice = 'd'\n";
  };
  EXPECT_EQ(refusal(with("memory = '80 GB'")), "nothing was thrown");
  EXPECT_THAT(refusal(with("memory = '80'")),
              AllOf(HasSubstr("cluster.toml: device.d.memory is \"80\""), HasSubstr("GiB")));
  EXPECT_THAT(refusal(with("memory = 80")), HasSubstr("device.d.memory is 80"));
  EXPECT_THAT(refusal(with("memory = '80 Gb'")), HasSubstr("device.d.memory"));
  EXPECT_THAT(refusal(with("memory = '-80 GB'")), HasSubstr("a number of at least 0"));
  EXPECT_THAT(refusal(with("memory = '0 GB'")), HasSubstr("nothing is left for a model"));
  EXPECT_THAT(refusal(with("memory = '1e9 TB'")), HasSubstr("4 EiB"));
  EXPECT_THAT(refusal(with("memory = '1 GB'\nrates.memory = '0 GB/s'")),
              HasSubstr("device.d.rates.memory"));
  EXPECT_THAT(refusal(with("memory = '1 GB'\nrates.memory = '3 GB'")), HasSubstr("TB/s"));
}

// MFU is a part of the data sheet's peak; kernels are priced with what large ones reach.
TEST(ClusterFile, PeaksAreThoseOfDataSheets) {
  const DeviceType a100 = parse_cluster_line("a100-80g").type(0);
  EXPECT_EQ(a100.peak(DType::kBF16), 312e12);
  EXPECT_EQ(a100.peak(DType::kF32), 19.5e12);
  EXPECT_LT(a100.cost.flops_rate(OperationClass::kMatmul, DType::kBF16), 312e12);
  const auto with = [](const std::string& device) {
    return "[device.d]\nmemory = '1 GB'\n" + device + "\n[[machine]]\ncount = 1\ndevice = 'd'\n";
  };
  const DeviceType given =
      parsed(with("rates.matmul = {arithmetic = '2 Tflop/s'}\npeaks = {bf16 = '9 Tflop/s'}"))
          .type(0);
  EXPECT_EQ(given.peak(DType::kBF16), 9e12);
  EXPECT_EQ(given.peak(DType::kF32), 2e12);  // not told: that of large products
  EXPECT_THAT(refusal(with("peaks = {bf17 = '9 Tflop/s'}")), HasSubstr("bf16"));
}

TEST(ClusterFile, RefusesWhatItDoesNotUnderstand) {
  const auto with = [](const std::string& rest) {
    return "[device.d]\nmemory = '1 GB'\n[[machine]]\nnames = 'n[0-1]'\ndevice = 'd'\n" + rest;
  };
  const std::string ib = "[[network]]\nname = 'ib'\nbandwidth = '1 GB/s'\n";
  EXPECT_EQ(refusal(with(ib)), "nothing was thrown");
  EXPECT_THAT(refusal(with("")), HasSubstr("fix: describe the network between the machines"));
  EXPECT_THAT(refusal(with("devies = 2")), HasSubstr("'machine[0].devices'"));
  EXPECT_THAT(refusal(with("[[network]]\nname = 'ib'")), HasSubstr("network[0] has no bandwidth"));
  EXPECT_THAT(refusal(with("[[network]]\nbandwidth = '1 GB/s'")), HasSubstr("has no name"));
  EXPECT_THAT(refusal(with(ib + "oversubscription = 2")),
              HasSubstr("a bandwidth and an oversubscription"));
  EXPECT_THAT(refusal(with(ib + "size = 2\nswitches = ['n[0-1]']")),
              HasSubstr("a size and switches"));
  EXPECT_THAT(refusal(with(ib + "switches = ['n[0-1]', 'n1']")), HasSubstr("'n1' twice"));
  EXPECT_THAT(refusal(with(ib + "switches = ['n0']")), HasSubstr("does not join machine 'n1'"));
  EXPECT_THAT(refusal(with(ib + "switches = ['n[0-2]']")),
              HasSubstr("no machine of the cluster has this name"));
  EXPECT_THAT(refusal(with(ib + "[[link]]\nbetween = ['n0', 'n1/0']\nbandwidth = '1 GB/s'")),
              HasSubstr("names the device 'n0'"));
  EXPECT_THAT(refusal(with(ib + "[[link]]\nbetween = ['n0/1', 'n1/0']\nbandwidth = '1 GB/s'")),
              HasSubstr("has the devices 0 to 0"));
  EXPECT_THAT(refusal(with(ib + "[[link]]\nbetween = ['n0/0']\nbandwidth = '1 GB/s'")),
              HasSubstr("is not a link between two devices"));
  EXPECT_THAT(refusal(with(ib + "ports = 0")), HasSubstr("network[0].ports"));
  EXPECT_THAT(refusal("machine = 3"), HasSubstr("it is a list of tables"));
  EXPECT_THAT(refusal("[device.d]\npreset = 'a100-80'"), HasSubstr("fix: write 'a100-80g'"));
  EXPECT_THAT(refusal("[[machine]]\ndevice = 'a100'"), HasSubstr("machine[0] has no names"));
  EXPECT_THAT(refusal(with("[[machine]]\ncount = 1048576\ndevice = 'd'\n")),
              HasSubstr("machine[1] are more than 1,048,576"));
}

TEST(ClusterFile, LevelsOfTheNetworkAreATree) {
  const std::string machines =
      "[device.d]\nmemory = '1 GB'\n[[machine]]\nnames = 'n[0-3]'\ndevice = 'd'\n";
  const std::string leaf = "[[network]]\nname = 'leaf'\nbandwidth = '1 GB/s'\nsize = 2\n";
  EXPECT_THAT(refusal(machines + leaf +
                      "[[network]]\nname = 'spine'\nbandwidth = '1 GB/s'\n"
                      "switches = ['n0,n2', 'n1,n3']"),
              HasSubstr("divides the machines of one switch"));
  EXPECT_THAT(refusal(machines + leaf), HasSubstr("leaves 2 parts"));
}

TEST(ClusterFile, MachinesMayHavePortsOfTheirOwnIntoTheNetwork) {
  constexpr const char* kUnlike =
      "[[machine]]\ncount = 1\ndevice = 'rtx3090'\ndevices = 4\n"
      "links = [{name = 'pcie', bandwidth = '12 GB/s', start = '60 us'}]\n"
      "network = {bandwidth = '1 Gb/s'}\n"
      "[[machine]]\ncount = 2\ndevice = 'v100'\ndevices = 4\n"
      "links = [{name = 'nvlink', bandwidth = '150 GB/s'}]\n"
      "[[network]]\nname = 'lan'\nbandwidth = '25 Gb/s'\nports = 2\nstart = '80 us'\n";
  const Cluster cluster = parsed(kUnlike);
  EXPECT_EQ(cluster.link(0, 4).bytes_per_second, 1e9 / 8) << "of the first machine";
  EXPECT_EQ(cluster.link(4, 8).bytes_per_second, 25e9 / 8);
  EXPECT_EQ(cluster.link(4, 8).start, Seconds(80e-6));
  EXPECT_EQ(cluster.link(0, 1).start, Seconds(60e-6));
  const Cluster again = parsed(to_toml(to_document(cluster.description())));
  EXPECT_EQ(again.description().machines, cluster.description().machines);
  EXPECT_EQ(again.description().network, cluster.description().network);
  EXPECT_THROW(parsed("[[machine]]\ncount = 1\ndevice = 'v100'\nnetwork = {ports = 2}\n"),
               UserError);
}

TEST(ClusterLine, DescribesMachinesInOneLine) {
  EXPECT_EQ(parse_cluster_line("8xa100-80g").device_count(), 8);
  EXPECT_EQ(parse_cluster_line("8xa100-80g").machine_count(), 1);
  const Cluster four = parse_cluster_line("4x8xh100-sxm;ib=400Gb");
  EXPECT_EQ(four.machine_count(), 4);
  EXPECT_EQ(four.device_count(), 32);
  EXPECT_EQ(four.link(0, 8).bytes_per_second, 50e9) << "400 Gb/s for each device";
  EXPECT_EQ(parse_cluster_line("4x8xh100-sxm;ib=2x200Gb").link(0, 8).bytes_per_second, 25e9);
  const Cluster mixed = parse_cluster_line("2x4xv100 + 2x8xp100");
  ASSERT_EQ(mixed.groups().size(), 2);
  EXPECT_EQ(mixed.groups()[0].devices.size(), 8);
  EXPECT_EQ(mixed.groups()[1].devices.size(), 16);
  EXPECT_EQ(parse_cluster_line("cpu:8").device_count(), 8);
  EXPECT_EQ(parse_cluster_line("titan-rtx").device_count(), 1);
  EXPECT_EQ(parse_cluster_line("8xH100").type(0).name, "h100-sxm");
  EXPECT_EQ(parse_cluster_line("2X4XA100-80G").device_count(), 8);
  EXPECT_EQ(parse_cluster_line("2xrtx2080").device_count(), 2);
}

TEST(ClusterLine, TheHybridCubeOfEightV100HasUnlikePairs) {
  const Cluster cube = parse_cluster_line("8xv100");
  EXPECT_EQ(cube.link(0, 3).bytes_per_second, 50e9);
  EXPECT_EQ(cube.link(0, 1).bytes_per_second, 25e9);
  EXPECT_EQ(cube.link(0, 5).bytes_per_second, 12e9);
  for (DeviceId device = 0; device < 8; ++device) {
    double all = 0;
    for (DeviceId other = 0; other < 8; ++other)
      if (cube.level(device, other) == "direct") all += cube.link(device, other).bytes_per_second;
    EXPECT_EQ(all, 150e9) << "six links of 25 GB/s, device " << device;
  }
}

TEST(ClusterLine, ANumberOfDevicesFillsMachinesOfTheirUsualSize) {
  EXPECT_EQ(line_of_devices("64xh100"), "8x8xh100");
  EXPECT_EQ(line_of_devices("8xa100-80g"), "8xa100-80g");
  EXPECT_EQ(line_of_devices("3xa100-80g"), "3xa100-80g");
  EXPECT_EQ(line_of_devices("144xgb200"), "2x72xgb200");
  EXPECT_EQ(cluster_of(line_of_devices("64xh100")).machine_count(), 8);
  for (const char* text : {"12xh100", "2x8xh100", "8xh100+8xa100", "8xh100;ib=400Gb", "64xnothing"})
    EXPECT_NE(message_of(ExitCode::kBadConfig, [&] { line_of_devices(text); }), "") << text;
}

TEST(ClusterLine, RefusesWhatIsNoCluster) {
  EXPECT_THAT(line_refusal("8xa100-80"), HasSubstr("write '8xa100-80g'"));
  EXPECT_THAT(line_refusal("8x8h100-sxm;ib=100Gb"), HasSubstr("write '8x8xh100-sxm;ib=100Gb'"));
  EXPECT_THAT(line_refusal("0xa100"), HasSubstr("no count"));
  EXPECT_THAT(line_refusal("2000000x2xa100"), HasSubstr("no count"));
  EXPECT_THAT(line_refusal("100000x100xa100"), HasSubstr("more than 1,048,576 devices"));
  EXPECT_THAT(line_refusal("8xa100;ib"), HasSubstr("the bandwidth of a port"));
  EXPECT_THAT(line_refusal("2x8xa100;ib=400"), HasSubstr("no bandwidth"));
  EXPECT_THAT(line_refusal("2x8xa100;ib=0Gb"), HasSubstr("no bandwidth"));
  EXPECT_THAT(line_refusal("2x8xa100;ib=4Gb;x=1Gb"), HasSubstr("several networks"));
  EXPECT_THAT(line_refusal(""), HasSubstr("no device is called ''"));
}

TEST(Names, OfAListAreWrittenOut) {
  EXPECT_THAT(expand_names("n[0-2,7],m"), ElementsAre("n0", "n1", "n2", "n7", "m"));
  EXPECT_THAT(expand_names("n[08-10]"), ElementsAre("n08", "n09", "n10"));
  EXPECT_THAT(expand_names("r[0-1]n[0-1]"), ElementsAre("r0n0", "r0n1", "r1n0", "r1n1"));
  for (const char* list : {"n[0-", "n]0", "n[2-1]", "n[a]", "n[0-9999999]", "", "a,,b", "n[1-2-3]",
                           "[0-999][0-999][0-999]", "[0][0][0][0][0][0][0][0][0]"})
    EXPECT_THAT(message_of(ExitCode::kBadConfig, [&] { expand_names(list); }),
                HasSubstr("is no list of names"))
        << list;
}

TEST(DevicePresets, AllAreClustersOfOneMachine) {
  for (const DevicePreset& preset : presets()) {
    const Cluster cluster =
        parse_cluster_line(std::to_string(preset.devices) + "x" + std::string(preset.name));
    EXPECT_EQ(cluster.device_count(), preset.devices);
    EXPECT_GT(cluster.link(0, 1).bytes_per_second, 1e9);
    EXPECT_FALSE(cluster.type(0).source.empty());
  }
}

}  // namespace
}  // namespace tessera
