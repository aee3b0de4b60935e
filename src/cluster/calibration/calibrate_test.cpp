#include "cluster/calibration/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/sources.h"

namespace tessera {
namespace {

constexpr std::string_view kTwoCores = R"(
[device.core]
kind = "cpu"
memory = "1 GB"
rates = {arithmetic = "1 Gflop/s", memory = "1 GB/s", copies = "1 GB/s", launch = "1 us"}
[[machine]]
names = "here"
device = "core"
devices = 2
links = [{name = "bus", bandwidth = "1 GB/s", latency = "1 us"}]
)";

ClusterDescription two_cores() {
  return parse_cluster_description(parse_toml(kTwoCores, "two.toml"), "two.toml");
}

LocalWork work_of_class(OperationClass operation, double flops) {
  LocalWork work;
  work.operation = operation;
  work.flops = Flops(static_cast<int64_t>(flops));
  return work;
}

/// A step of n operations of products and of element-wise kernels, and so many bytes of an
/// exchange.
struct Step {
  double matmul = 0, elementwise = 0, bytes = 0;

  Seconds on(const Cluster& cluster) const {
    const DeviceCost& cost = cluster.type(0).cost;
    const LinkCost link = cluster.link(0, 1);
    Seconds sum = compute_price(work_of_class(OperationClass::kMatmul, matmul), cost).estimate;
    sum += compute_price(work_of_class(OperationClass::kElementwise, elementwise), cost).estimate;
    if (bytes > 0) sum += message_price(Bytes(static_cast<int64_t>(bytes)), link).estimate;
    return sum;
  }
};

MeasuredStepOfRun run_of(const std::string& name, const Step& step, const Cluster& truth,
                         bool is_fitted = true) {
  return {name, step.on(truth), [step](const Cluster& cluster) { return step.on(cluster); },
          is_fitted};
}

/// The machine as it is: products take 1.5 times as long as the file says, messages 0.6 times.
Cluster truth() {
  ClusterDescription description = two_cores();
  description.types.front().cost.classes[OperationClass::kMatmul].time_factor = 1.5;
  description.machines.front().levels.front().level.link.bytes_per_second /= 0.6;
  return Cluster(description);
}

std::map<std::string, double> factors_of(const Calibration& result) {
  std::map<std::string, double> factors;
  for (const FittedConstant& fitted : result.constants)
    factors[fitted.constant.name()] = fitted.factor;
  return factors;
}

TEST(Calibration, FindsTheConstantsThatAreWrong) {
  const Cluster real = truth();
  const Step products{1e7, 1e5, 0}, mixed{1e6, 5e6, 0}, sends{1e6, 1e5, 1e8};
  const Calibration result =
      calibrate(two_cores(),
                {run_of("products", products, real), run_of("mixed", mixed, real),
                 run_of("sends", sends, real), run_of("other", {3e6, 1e6, 2e7}, real, false)},
                "calibrated by 3 runs");
  const auto factors = factors_of(result);
  // A prior of 30% beside measurements of 3% leaves a hundredth of log(1.5), 0.4%, and as much of
  // what two constants share.
  EXPECT_NEAR(factors.at("matmul on core"), 1.5, 0.03);
  EXPECT_NEAR(factors.at("bandwidth of bus"), 0.6, 0.03);
  EXPECT_NEAR(factors.at("elementwise on core"), 1, 0.03);
  EXPECT_GT(result.mean_error(true, false), 0.2);
  EXPECT_LT(result.mean_error(true, true), 0.02);
  EXPECT_GT(result.mean_error(false, false), 0.1) << "the run that is left out";
  EXPECT_LT(result.mean_error(false, true), 0.02);
}

TEST(Calibration, LeavesAloneWhatNoRunDependsOn) {
  const Cluster real = truth();
  const Calibration result =
      calibrate(two_cores(), {run_of("products", {1e7, 0, 0}, real)}, "calibrated");
  const auto factors = factors_of(result);
  EXPECT_FALSE(factors.contains("bandwidth of bus"));
  EXPECT_FALSE(factors.contains("convolution on core"));
  EXPECT_EQ(result.description.machines, two_cores().machines);
}

TEST(Calibration, FactorsStayWithinTheirBounds) {
  // The run took a hundred times as long as the file says.
  const Step step{1e7, 0, 0};
  const MeasuredStepOfRun run{"slow", Seconds(100 * step.on(Cluster(two_cores())).value()),
                              [step](const Cluster& cluster) { return step.on(cluster); }};
  const auto factors = factors_of(calibrate(two_cores(), {run}, "calibrated"));
  EXPECT_DOUBLE_EQ(factors.at("matmul on core"), 4);
}

TEST(Calibration, ExactPredictionsChangeNothing) {
  const Cluster same(two_cores());
  const Calibration result =
      calibrate(two_cores(), {run_of("products", {1e7, 1e5, 1e6}, same)}, "calibrated");
  for (const auto& [name, factor] : factors_of(result)) EXPECT_NEAR(factor, 1, 1e-9) << name;
}

TEST(Calibration, EveryFittedValueHasItsSource) {
  const Cluster real = truth();
  const Calibration result = calibrate(two_cores(), {run_of("sends", {1e6, 1e5, 1e8}, real)},
                                       "calibrated 2026-11-23 by 1 run");
  const ClusterDescription back = parse_cluster_description(
      parse_toml(to_toml(to_document(result.description)), "c.toml"), "c.toml");
  EXPECT_EQ(back, result.description);
  for (const char* place :
       {"device.core.rates.matmul.time_factor", "machine[0].links[0].bandwidth"})
    EXPECT_TRUE(source_of(back, place).starts_with("calibrated 2026-11-23 by 1 run: ")) << place;
  EXPECT_EQ(source_of(back, "device.core.memory"), "");
  EXPECT_NE(fingerprint(back), fingerprint(two_cores()));
}

TEST(Constants, LevelsOfAnOversubscriptionHaveNoBandwidthOfTheirOwn) {
  const Cluster cluster = parse_cluster(parse_toml(R"(
[[machine]]
count = 4
device = "a100-80g"
devices = 8
links = [{name = "nvlink", bandwidth = "300 GB/s"}]
[[network]]
name = "rack"
size = 2
bandwidth = "25 GB/s"
[[network]]
name = "spine"
oversubscription = 2
)",
                                                   "racks.toml"),
                                        "racks.toml");
  std::vector<std::string> names;
  for (const Constant& constant : constants_of(cluster.description()))
    if (constant.kind == Constant::Kind::kBandwidth || constant.kind == Constant::Kind::kLatency)
      names.push_back(constant.name());
  EXPECT_EQ(names,
            (std::vector<std::string>{"latency of nvlink", "bandwidth of nvlink", "latency of rack",
                                      "bandwidth of rack", "latency of spine"}));
}

TEST(FactorFit, IsTheMostLikelyFactorBetweenTheMeasurementAndOne) {
  // One measurement of e x the prediction: x = argmin ((x - 1) / 0.1)^2 + (x / 0.2)^2 in the
  // logarithm, which is 0.04 / (0.01 + 0.04) = 0.8.
  const auto predict = [](std::span<const double> x) { return std::vector<double>{x[0]}; };
  const std::vector<double> measured{std::exp(1.0)};
  const std::vector<double> found =
      fit_factors(predict, measured, 1, {.measurement = 0.1, .factor = 0.2});
  EXPECT_NEAR(std::log(found[0]), 0.8, 1e-6);
}

}  // namespace
}  // namespace tessera
