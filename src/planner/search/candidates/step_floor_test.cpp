#include "planner/search/candidates/step_floor.h"

#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/search/find_plan.h"

namespace tessera {
namespace {

Graph small_model(const std::string& kind, int layers) {
  const Network network = network_of({.kind = kind,
                                      .vocabulary = 512,
                                      .context = 32,
                                      .layers = layers,
                                      .width = 128,
                                      .heads = 4,
                                      .dropout = 0});
  return training_graph(network, {}, 16, 1);
}

/// One device that executes 6e9 operations a step.
EvaluatedCandidate six_billion() {
  EvaluatedCandidate one;
  one.prediction.executed = Flops(6e9);
  return one;
}

/// Devices of one machine with these operations and bytes per second.
Cluster devices_of(const std::vector<std::pair<double, double>>& rates) {
  ClusterDescription description =
      parse_cluster_line("1x2xv100-16g+1x2xp100;ib=100Gb").description();
  for (size_t i = 0; i < rates.size(); ++i) {
    DeviceCost& cost = description.types[i].cost;
    cost = DeviceCost();
    cost.flops_per_second = rates[i].first;
    cost.bytes_per_second = rates[i].second;
  }
  return Cluster(description);
}

// w has 4,000 bytes, and its update reads and writes it.
constexpr const char* kOneVariable =
    "input x: f32[8,1000]\n"
    "variable w: f32[1000] = normal(0.0, 0.02)\n"
    "output x = x\n"
    "smaller = mul_scalar(w) {value=0.5}: f32[1000] @optimizer\n"
    "next w = smaller\n";

// A parameter that keeps its value need not be read: its rows may be looked up.
TEST(StepFloor, CountsNoBytesOfParametersThatKeepTheirValues) {
  const Graph graph = parse_graph(
      "input x: f32[8,1000]\n"
      "variable w: f32[1000] = normal(0.0, 0.02)\n"
      "output x = x\n");
  const Cluster cluster = devices_of({{2e9, 4e3}});
  EXPECT_EQ(step_floor({graph, cluster}, 2, six_billion()).memory, Seconds(0));
}

// Two devices of 2e9 and two of 1e9 operations a second; of 3 devices the fastest are 2, 2 and 1.
TEST(StepFloor, DividesWhatOneDeviceExecutesOverTheFastestDevices) {
  const Graph graph = parse_graph(kOneVariable);
  const Cluster cluster = devices_of({{2e9, 4e3}, {1e9, 2e3}});
  const PlanRequest request{graph, cluster};
  EXPECT_DOUBLE_EQ(step_floor(request, 4, six_billion()).arithmetic.value(), 6.0 / 6);
  EXPECT_DOUBLE_EQ(step_floor(request, 3, six_billion()).arithmetic.value(), 6.0 / 5);
  EXPECT_DOUBLE_EQ(step_floor(request, 1, six_billion()).arithmetic.value(), 6.0 / 2);
  // 8,000 bytes over 2 (4,000 + 2,000) bytes a second.
  EXPECT_NEAR(step_floor(request, 4, six_billion()).memory.value(), 8.0 / 12, 1e-12);
  EXPECT_DOUBLE_EQ(step_floor(request, 4, six_billion()).seconds().value(), 1);
}

// A class of half the time at its own rate of 3e9, and a kernel of an efficiency of 2.
TEST(StepFloor, CountsTheHighestRateOfAClassOrAKernel) {
  const Graph graph = parse_graph(kOneVariable);
  ClusterDescription description = devices_of({{2e9, 4e3}, {2e9, 4e3}}).description();
  for (DeviceType& type : description.types)
    type.cost.classes[OperationClass::kMatmul] = {.flops_per_second = 3e9, .time_factor = 0.5};
  const Cluster classes(description);
  EXPECT_DOUBLE_EQ(step_floor({graph, classes}, 1, six_billion()).arithmetic.value(), 6.0 / 6);
  for (DeviceType& type : description.types)
    type.cost.kernels["dot"].efficiency.points = {{1, 0.5}, {2, 2}};
  const Cluster kernels(description);
  EXPECT_DOUBLE_EQ(step_floor({graph, kernels}, 1, six_billion()).arithmetic.value(), 6.0 / 12);
}

// Of 6e9 operations 2e9 are on padding, which kernels may leave out.
TEST(StepFloor, CountsNoOperationsOnPadding) {
  const Graph graph = parse_graph(kOneVariable);
  const Cluster cluster = devices_of({{2e9, 4e3}, {2e9, 4e3}});
  EvaluatedCandidate one = six_billion();
  one.prediction.padding = Flops(2e9);
  EXPECT_DOUBLE_EQ(step_floor({graph, cluster}, 1, one).arithmetic.value(), 4.0 / 2);
}

// kOneVariable has f32 only.
TEST(StepFloor, CountsOnlyRatesOfTheElementTypesOfTheModel) {
  const Graph graph = parse_graph(kOneVariable);
  ClusterDescription description = devices_of({{2e9, 4e3}, {2e9, 4e3}}).description();
  for (DeviceType& type : description.types)
    type.cost.classes[OperationClass::kMatmul].flops_per_second_of = {{DType::kBF16, 9e9},
                                                                      {DType::kF32, 3e9}};
  const Cluster cluster(description);
  EXPECT_DOUBLE_EQ(step_floor({graph, cluster}, 1, six_billion()).arithmetic.value(), 6.0 / 3);
}

TEST(StepFloor, IsBelowEveryPlan) {
  struct Case {
    const char *kind, *line, *runtime;
  };
  for (const auto& [kind, line, runtime] :
       {Case{"gpt", "4xv100-16g", "tessera"}, Case{"gpt", "4xv100-16g", "torch-eager"},
        Case{"gpt", "4xa100-80g", "megatron"}, Case{"two_tower", "cpu:4", "tessera"},
        Case{"mlp", "1x2xv100-16g+1x2xp100;ib=10Gb", "tessera"},
        Case{"mlp", "1x2xv100-16g+1x2xp100;ib=10Gb", "torch-compile"}}) {
    const Graph graph = small_model(kind, 2);
    const Cluster cluster(
        on_runtime(parse_cluster_line(line).description(), *find_runtime_profile(runtime)));
    const PlanRequest request{graph, cluster};
    const PlanSearchResult result = find_plan(
        request, {.constraints = constraints_of(4, false), .max_presets = 8, .excludes = false});
    const EvaluatedCandidate* one = result.find(Candidate::Source::kOneDevice);
    ASSERT_TRUE(one);
    const StepFloor floor = step_floor(request, 4, *one);
    EXPECT_GT(floor.seconds(), Seconds(0));
    for (const EvaluatedCandidate& candidate : result.candidates)
      EXPECT_LE(floor.seconds(), candidate.step())
          << kind << " on " << line << ", " << runtime << ": " << candidate.candidate.name;
  }
}

}  // namespace
}  // namespace tessera
