#include "cluster/cluster/profile_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

/// A file of this test that goes with it.
class ProfileFile {
 public:
  explicit ProfileFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("tessera_profile_" + name + ".toml")) {}
  ~ProfileFile() { std::filesystem::remove(path_); }
  ProfileFile(const ProfileFile&) = delete;
  ProfileFile& operator=(const ProfileFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(ProfileFiles, WhatIsWrittenIsReadAgain) {
  const ProfileFile file("again");
  for (RuntimeProfile profile : runtime_profiles()) {
    profile.host = Seconds(12.5e-6);
    profile.reach.network.bandwidth = 0.625;
    profile.low = 0.875;
    profile.high = 1.25;
    write_profile(file.path(), profile);
    EXPECT_EQ(profile_called(file.path()), profile) << profile.name;
  }
}

TEST(ProfileFiles, ANameIsAProfileThatIsBuiltIn) {
  EXPECT_EQ(profile_called("torch-eager").fusion, Fusion::kLayers);
  EXPECT_EQ(profile_called("tessera").fusion, Fusion::kNone);
}

TEST(ProfileFiles, WhatIsNeitherANameNorAFileIsRefused) {
  try {
    profile_called("pytorch");
    FAIL() << "it is no profile";
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kMissingInput);
    EXPECT_NE(std::string(error.what()).find("torch-eager"), std::string::npos) << error.what();
  }
}

TEST(ProfileFiles, ALineOfAClusterFileNamesTheRuntimeAndChangesIt) {
  const ClusterDescription cluster =
      parse_cluster_description(parse_toml("[device.a100-80g]\npreset = \"a100-80g\"\n"
                                           "[[machine]]\nnames = \"n0\"\ndevice = \"a100-80g\"\n"
                                           "[runtime]\nprofile = \"megatron\"\nhost = \"7 us\"\n",
                                           "c.toml"),
                                "c.toml");
  EXPECT_EQ(cluster.runtime.name, "megatron");
  EXPECT_EQ(cluster.runtime.host, Seconds(7e-6));
  EXPECT_EQ(parse_cluster_description(to_document(cluster), "again.toml"), cluster);
}

// 312 Tflop/s, of which presets assume 80%.
TEST(OnRuntime, DevicesAndLinksHaveWhatTheProfileReaches) {
  const ClusterDescription before = tessera::cluster_of("2x8xa100-80g;ib=8x200Gb").description();
  RuntimeProfile profile;
  profile.name = "megatron";
  profile.reach = {.products = 0.5,
                   .half_extent = 100,
                   .attention = 0.25,
                   .memory = 0.75,
                   .inside = {0.5, Seconds(3e-6), Seconds(1e-6)},
                   .network = {0.25}};
  const ClusterDescription after = on_runtime(before, profile);
  const DeviceCost &slow = after.types[0].cost, &fast = before.types[0].cost;
  EXPECT_DOUBLE_EQ(slow.flops_rate(OperationClass::kMatmul, DType::kBF16), 0.5 * 0.8 * 312e12);
  EXPECT_DOUBLE_EQ(slow.flops_rate(OperationClass::kAttention, DType::kBF16),
                   0.25 * 0.5 * 0.8 * 312e12);
  EXPECT_DOUBLE_EQ(slow.bytes_per_second, 0.75 * fast.bytes_per_second);
  EXPECT_EQ(slow.rates_of(OperationClass::kMatmul)->half_extent, 100);
  const LinkCost &inside = after.machines[0].levels[0].level.link,
                 &ib = after.network[0].level.link;
  EXPECT_DOUBLE_EQ(inside.bytes_per_second, 150e9);
  EXPECT_EQ(inside.start, Seconds(3e-6));
  EXPECT_EQ(inside.latency, Seconds(1e-6));
  EXPECT_DOUBLE_EQ(ib.bytes_per_second, 25e9 / 4);
  EXPECT_EQ(ib.latency, before.network[0].level.link.latency);
  EXPECT_EQ(on_runtime(after, after.runtime), after);  // it is applied once
}

TEST(OnRuntime, TheUsualOneOfGpusJoinsKernelsAndTheOneThatIsNamedIsKept) {
  const ClusterDescription gpus = tessera::cluster_of("8xa100-80g").description();
  EXPECT_EQ(on_usual_runtime(gpus).runtime.name, "torch-compile");
  EXPECT_LT(on_usual_runtime(gpus).types[0].cost.fused, 1);
  EXPECT_EQ(on_usual_runtime(gpus).types[0].reserve, profile_called("torch-compile").libraries);
  for (const char* name : {"tessera", "megatron"}) {
    const ClusterDescription named = on_runtime(gpus, profile_called(name));
    EXPECT_EQ(on_usual_runtime(named), named) << name;
  }
  ClusterDescription ours = on_runtime(gpus, profile_called("tessera"));
  ours.runtime = gpus.runtime;
  EXPECT_EQ(ours, gpus);
  const ClusterDescription cores = tessera::cluster_of("8xcpu").description();
  EXPECT_EQ(on_usual_runtime(cores), cores);
}

// A half of what a norm takes alone; a product is joined with nothing.
TEST(OnRuntime, JoinedKernelsTakeAPartOfTheirTime) {
  DeviceCost device;
  const auto price = [&](OperationClass operation) {
    return compute_price({.operation = operation, .flops = Flops(1e6), .read = Bytes(1'000'000)},
                         device)
        .estimate.value();
  };
  const double norm = price(OperationClass::kReduction), product = price(OperationClass::kMatmul);
  device.fused = 0.5;
  EXPECT_DOUBLE_EQ(price(OperationClass::kReduction), norm / 2);
  EXPECT_EQ(price(OperationClass::kMatmul), product);
}

TEST(OnRuntime, CoresAreUsedByOurOwnRuntime) {
  const ClusterDescription before = tessera::cluster_of("8xcpu").description();
  ClusterDescription after = on_runtime(before, profile_called("megatron"));
  after.runtime = before.runtime;
  EXPECT_EQ(after, before);
}

// A product of 100 rows reaches half of its rate where half_extent is 100.
TEST(OnRuntime, SmallProductsReachAPartOfTheRate) {
  DeviceCost device;
  device.launch = Seconds(0);
  device.classes[OperationClass::kMatmul] = {.flops_per_second = 1e12, .half_extent = 100};
  const LocalWork work{
      .operation = OperationClass::kMatmul, .flops = Flops(1e9), .smallest_extent = 100};
  EXPECT_NEAR(compute_price(work, device).estimate.value(), 2e-3, 1e-9);
  EXPECT_NEAR(compute_price(work, device).floor.value(), 1e-3, 1e-9);
}

}  // namespace
}  // namespace tessera
