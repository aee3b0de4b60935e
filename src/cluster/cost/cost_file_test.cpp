#include "cluster/cost/cost_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/cost/quantity.h"

namespace tessera {
namespace {

CostModel parsed(std::string_view toml) {
  return parse_cost_model(parse_toml(toml, "cost.toml"), "", "cost.toml");
}

/// The message that `toml` is refused with.
std::string refusal(std::string_view toml) {
  try {
    parsed(toml);
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    return error.what();
  }
  return "accepted";
}

TEST(Quantity, HasANumberAndAUnit) {
  EXPECT_EQ(parse_quantity("5 GB/s", byte_rate_units()), 5e9);
  EXPECT_EQ(parse_quantity("5GB/s", byte_rate_units()), 5e9);
  EXPECT_EQ(parse_quantity("200 Gb/s", byte_rate_units()), 25e9) << "8 bits are a byte";
  EXPECT_EQ(parse_quantity("1 GiB/s", byte_rate_units()), 1073741824.0);
  EXPECT_EQ(parse_quantity("3 us", time_units()), 3e-6);
  EXPECT_EQ(parse_quantity("1.5 Tflop/s", arithmetic_units()), 1.5e12);
  EXPECT_EQ(parse_quantity("1 %", share_units()), 0.01);
  for (const char* text : {"5", "GB/s", "5 GB", "5 gb/s", "five GB/s", ""})
    EXPECT_EQ(parse_quantity(text, byte_rate_units()), std::nullopt) << text;
}

TEST(Quantity, IsPrintedInTheShortestFormThatParsesToIt) {
  EXPECT_EQ(quantity_text(5e9, byte_rate_units()), "5 GB/s");
  EXPECT_EQ(quantity_text(2e10, arithmetic_units()), "20 Gflop/s");
  EXPECT_EQ(quantity_text(1e-6, time_units()), "1 us");
  EXPECT_EQ(quantity_text(0, time_units()), "0 s");
  EXPECT_EQ(quantity_text(0.01, share_units()), "1 %");
  for (double value : {1.0, 1e-7 / 3, 123456789.0, 1e15 / 7, 3e-6, 7e-9})
    for (const UnitTable* table : {&time_units(), &byte_rate_units(), &arithmetic_units()})
      EXPECT_EQ(parse_quantity(quantity_text(value, *table), *table), value);
}

TEST(Quantity, SharesAreInPercentWhateverTheirDigits) {
  // 0.6719849476005181 x 100 / 100 is another number: it was printed as 0.67 %.
  std::vector<double> shares{0.6719849476005181, 1.0 / 3, 0.9975, 1e-9 / 7, 12.7};
  for (int i = 1; i < 1000; ++i) shares.push_back(i / 1009.0);
  for (double share : shares) {
    const std::string text = quantity_text(share, share_units());
    const auto parsed = parse_quantity(text, share_units());
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_NEAR(*parsed / share, 1, 1e-15) << text;
  }
}

TEST(CostFile, EfficienciesComeBackWhateverTheirDigits) {
  CostModel cost;
  cost.device.classes[OperationClass::kMatmul].efficiency = {
      {{1e3, 0.6719849476005181}, {1e6, 0.9078192292809784}}};
  const CostModel back = parse_cost_model(to_document(cost), "", "cost.toml");
  const SizeCurve& curve = back.device.classes.at(OperationClass::kMatmul).efficiency;
  EXPECT_NEAR(curve.at(1e3), 0.6719849476005181, 1e-15);
  EXPECT_NEAR(curve.at(1e6), 0.9078192292809784, 1e-15);
}

TEST(CostFile, FactorsOfTimesMultiplyPrices) {
  const CostModel cost = parsed(
      "[device]\narithmetic = '1 Gflop/s'\nlaunch = '1 us'\nlaunch_factor = 3\n"
      "matmul = {time_factor = 2}\nkernels = {dot_general = {time_factor = 1.5}}");
  LocalWork work;
  work.operation = OperationClass::kMatmul;
  work.kernel = "dot_general";
  work.flops = Flops(1000);
  // 1 us at 1 Gflop/s, times 2 of the class and 1.5 of the kernel, and 3 launches of 1 us.
  const Price price = compute_price(work, cost.device);
  EXPECT_DOUBLE_EQ(price.estimate.value(), 6e-6);
  EXPECT_DOUBLE_EQ(price.floor.value(), 3e-6);
  work.operation = OperationClass::kElementwise;
  work.kernel = "unary.exp";
  EXPECT_DOUBLE_EQ(compute_price(work, cost.device).estimate.value(), 4e-6);
  EXPECT_EQ(parse_cost_model(to_document(cost), "", "cost.toml"), cost);
}

TEST(CostFile, LevelsOfAnAxisHaveNamesAndSizes) {
  const CostModel cost = parsed(
      "[links]\naxes = {dp_ib = {bandwidth = '25 GB/s'}}\nlevels = {dp = ['dp_ib:2', 'dp_nv:8']}");
  EXPECT_EQ(cost.links.levels.at("dp"), (std::vector<AxisLevel>{{"dp_ib", 2}, {"dp_nv", 8}}));
  EXPECT_EQ(cost.links.outermost_on("dp").bytes_per_second, 25e9);
  EXPECT_EQ(parse_cost_model(to_document(cost), "", "cost.toml"), cost);
  for (const char* text : {"levels = {dp = ['dp_ib']}", "levels = {dp = ['dp_ib:1']}",
                           "levels = {dp = 'dp_ib:2'}", "levels = {dp = [':2']}", "levels = 2"})
    EXPECT_THROW(parsed(std::string("[links]\n") + text), UserError) << text;
}

TEST(CostFile, WhatItDoesNotNameHasItsDefault) {
  EXPECT_EQ(parsed(""), CostModel{});
  CostModel expected;
  expected.device.launch = Seconds(5e-6);
  EXPECT_EQ(parsed("device.launch = '5 us'"), expected);
}

constexpr std::string_view kEverything = R"(
[device]
arithmetic = "10 Tflop/s"
memory = "1 TB/s"
copies = "800 GB/s"
launch = "5 us"
matmul = {arithmetic = "100 Tflop/s", bf16 = "300 Tflop/s", memory = "2 TB/s"}
kernels.copy = {memory = "3 GB/s"}
kernels.convolution = {row_efficiency = {"1 kflop" = "30 %"}, copies = "4 GB/s"}
kernels."unary.exp" = {launch = "1 us", memory_at = {"1 kB" = "1 GB/s"}}

[links]
latency = "10 us"
bandwidth = "300 GB/s"
axes = {node = {latency = "20 us", bandwidth = "200 Gb/s"}}
pairs = [{ranks = [3, 1], bandwidth = "50 GB/s"}]

[copies]
host_to_device = {latency = "10 us", bandwidth = "12 GB/s"}
device_to_host = {latency = "11 us", bandwidth = "13 GB/s"}

[pipeline]
transfer = "2.5 %"
)";

TEST(CostFile, NamesEveryPrice) {
  const CostModel cost = parsed(kEverything);
  EXPECT_EQ(cost.device.flops_per_second, 1e13);
  EXPECT_EQ(cost.device.bytes_per_second, 1e12);
  EXPECT_EQ(cost.device.copied_bytes_per_second, 8e11);
  EXPECT_EQ(cost.device.launch, Seconds(5e-6));
  EXPECT_EQ(cost.device.flops_rate(OperationClass::kMatmul, DType::kF32), 1e14);
  EXPECT_EQ(cost.device.flops_rate(OperationClass::kMatmul, DType::kBF16), 3e14);
  EXPECT_EQ(cost.device.memory_rate(OperationClass::kMatmul), 2e12);
  EXPECT_EQ(cost.device.flops_rate(OperationClass::kReduction, DType::kBF16), 1e13);
  EXPECT_EQ(cost.device.rates_of("unary.exp")->launch, Seconds(1e-6));
  EXPECT_EQ(cost.device.rates_of("unary.exp")->bytes_per_second_at.at(1), 1e9);
  EXPECT_EQ(cost.device.rates_of("copy")->bytes_per_second, 3e9);
  EXPECT_EQ(cost.device.rates_of("convolution")->row_efficiency, (SizeCurve{{{1000, 0.3}}}));
  EXPECT_EQ(cost.device.rates_of("convolution")->copied_bytes_per_second, 4e9);
  EXPECT_EQ(cost.device.rates_of("sort"), nullptr);
  EXPECT_EQ(cost.links.any, (LinkCost{Seconds(10e-6), 3e11}));
  EXPECT_EQ(cost.links.on("node"), (LinkCost{Seconds(20e-6), 25e9}));
  EXPECT_EQ(*cost.links.between(1, 3), (LinkCost{Seconds(10e-6), 5e10}))
      << "the latency is that of links between any two ranks";
  EXPECT_EQ(cost.host_to_device, (LinkCost{Seconds(10e-6), 12e9}));
  EXPECT_EQ(cost.device_to_host, (LinkCost{Seconds(11e-6), 13e9}));
  EXPECT_EQ(cost.stage_transfer, 0.025);
}

TEST(CostFile, WhatIsPrintedParsesToTheSameModel) {
  for (const CostModel& cost : {CostModel{}, parsed(kEverything)}) {
    const std::string text = to_json(to_document(cost), 2);
    EXPECT_EQ(parse_cost_model(parse_json(text, "cost.json"), "", "cost.json"), cost) << text;
  }
}

TEST(CostFile, TheDefaultIsPrintedWithItsUnits) {
  EXPECT_EQ(to_json(to_document(CostModel{})),
            R"({"device":{"arithmetic":"20 Gflop/s","memory":"5 GB/s","copies":"10 GB/s",)"
            R"("launch":"2 us"},"links":{"latency":"1 us","bandwidth":"5 GB/s"},)"
            R"("copies":{"host_to_device":{"latency":"1 us","bandwidth":"5 GB/s"},)"
            R"("device_to_host":{"latency":"1 us","bandwidth":"5 GB/s"}},)"
            R"("pipeline":{"transfer":"1 %"}})");
}

// ---- mistakes ----

TEST(CostFile, RatesOfKernelsAreATable) {
  EXPECT_EQ(refusal("[device]\nkernels = 'all'"),
            "cost.toml: device.kernels is a string\n"
            "  why: rates of kernels are a table by the name of the kernel\n"
            "  fix: write kernels = {\"unary.exp\" = {memory = \"1 GB/s\"}}");
  EXPECT_NE(refusal("[device.kernels.sort]\nlaunch = 3").find("device.kernels.sort.launch is 3"),
            std::string::npos);
  EXPECT_NE(refusal("[device.kernels.sort]\nlunch = '3 us'").find("launch"), std::string::npos)
      << "the nearest key is named";
}

TEST(CostFile, AValueWithoutItsUnitIsRefused) {
  EXPECT_EQ(refusal("[links]\nbandwidth = 5e9"),
            "cost.toml: links.bandwidth is 5000000000.0\n"
            "  why: it is a rate of bytes: a number and its unit, B/s, TB/s, GB/s, MB/s, kB/s, "
            "GiB/s, MiB/s or Gb/s\n"
            "  fix: write it as \"5 GB/s\"");
  EXPECT_EQ(refusal("device.launch = '5 GB/s'"),
            "cost.toml: device.launch is \"5 GB/s\"\n"
            "  why: it is a time: a number and its unit, s, ms, us or ns\n"
            "  fix: write it as \"1 us\"");
}

TEST(CostFile, ARateOfZeroIsRefused) {
  EXPECT_EQ(refusal("device.matmul.bf16 = '0 flop/s'"),
            "cost.toml: device.matmul.bf16 is \"0 flop/s\"\n"
            "  why: a rate of operations is finite and above 0\n"
            "  fix: write a number above 0");
  EXPECT_EQ(refusal("links.axes.tp.latency = '-1 us'"),
            "cost.toml: links.axes.tp.latency is \"-1 us\"\n"
            "  why: a time is finite and at least 0\n"
            "  fix: write a number of at least 0");
}

TEST(CostFile, AnUnknownKeyIsRefusedWithTheMostSimilarOne) {
  EXPECT_NE(refusal("[device]\nmatmull = {bf16 = '1 Tflop/s'}").find("matmul"), std::string::npos);
  EXPECT_NE(refusal("[device.matmul]\nbf17 = '1 Tflop/s'").find("bf16"), std::string::npos);
  EXPECT_NE(refusal("[link]\nlatency = '1 us'").find("links"), std::string::npos);
}

TEST(CostFile, ALinkOfAPairNamesTwoRanksOnce) {
  for (const char* ranks : {"[0]", "[0, 0]", "[0, -1]", "[0, 'a']", "3"})
    EXPECT_EQ(refusal("links.pairs = [{ranks = " + std::string(ranks) + "}]"),
              "cost.toml: links.pairs[0] is not a link between two ranks\n"
              "  why: its 'ranks' are the numbers of two ranks\n"
              "  fix: write ranks = [0, 1]");
  EXPECT_EQ(refusal("links.pairs = [{ranks = [0, 1]}, {ranks = [1, 0]}]"),
            "cost.toml: links.pairs[1] has the ranks of an earlier link\n"
            "  why: two ranks have one link, in both directions\n"
            "  fix: remove one of the two");
}

}  // namespace
}  // namespace tessera
