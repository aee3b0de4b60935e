// Compares bubble rates with those that the authors of the zero-bubble schedules computed from
// measured times (arXiv 2401.10241, tables 5 and 9; tests/data has both).
//
// Their simulator gives every stage the same times, although the first and the last have one layer
// less. The rate is that of the device with the longest span, (span - m (F + B + W)) / span. Memory
// is that of their table 1: F keeps s b h (34 + 5 a s / h) bytes, of which W still needs 32 s b h.
// ZB-1p and ZB-2p are their heuristic with p and 2 p micro-batches of memory, to which `auto`
// corresponds here.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "base/text/text.h"
#include "compiler/schedule/auto_order.h"
#include "compiler/schedule/clock.h"
#include "compiler/schedule/named_orders.h"

namespace tessera {
namespace {

/// The rows of a table by the names of its columns, without comments.
std::vector<std::map<std::string, std::string>> rows_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> names;
  std::vector<std::map<std::string, std::string>> rows;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> cells = split_text(line, ',');
    if (names.empty()) {
      names = cells;
      continue;
    }
    rows.emplace_back();
    for (size_t i = 0; i < names.size(); ++i) rows.back()[names[i]] = cells.at(i);
  }
  return rows;
}

const std::filesystem::path kTables = std::filesystem::path(TESSERA_SOURCE_DIR) / "tests/data";

struct Row {
  std::string name, schedule;
  PipelineShape shape;
  double rate = 0;
};

std::string key(const std::map<std::string, std::string>& row) {
  return row.at("model") + " p=" + row.at("pp") + " m=" + row.at("num_microbatches");
}

/// By model, devices and micro-batches: one stage for each device.
std::map<std::string, PipelineShape> published_shapes() {
  std::map<std::string, PipelineShape> shapes;
  for (const auto& row : rows_of(kTables / "zero_bubble_table9_pass_times.csv")) {
    const auto number = [&](const std::string& column) { return std::stod(row.at(column)); };
    const double per_layer = 34 + 5 * number("heads") * number("seq") / number("hidden");
    const StageCosts costs{number("T_F_ms"), number("T_B_ms"), number("T_W_ms"), 1,
                           1 - 32 / per_layer};
    PipelineShape shape = chain_of(std::stoi(row.at("pp")), 1, StagePlacement::kRoundRobin,
                                   std::stoi(row.at("num_microbatches")), costs);
    shape.transfer = number("T_comm_ms");
    shapes[key(row)] = shape;
  }
  return shapes;
}

std::vector<Row> published_rows() {
  const std::map<std::string, PipelineShape> shapes = published_shapes();
  std::vector<Row> rows;
  for (const auto& row : rows_of(kTables / "zero_bubble_table5_bubble_rates.csv"))
    rows.push_back(
        {key(row), row.at("schedule"), shapes.at(key(row)), std::stod(row.at("bubble_rate"))});
  return rows;
}

double rate_of(const PipelineShape& shape, const DeviceOrders& orders) {
  const StageCosts& costs = shape.stages[0].costs;
  const double span = simulate_passes(shape, orders)->longest_span();
  return (span -
          shape.micro_batches * (costs.forward + costs.input_gradient + costs.weight_gradient)) /
         span;
}

/// Half of the last of the four printed digits.
constexpr double kPrinted = 0.00005 + 1e-9;

TEST(PublishedRates, NamedSchedulesReproduceThePublishedBubbleRates) {
  const std::map<std::string, PipelineKind> named = {{"1F1B", PipelineKind::kOneForwardOneBackward},
                                                     {"ZB-H1", PipelineKind::kZeroBubbleH1},
                                                     {"ZB-H2", PipelineKind::kZeroBubbleH2}};
  std::map<std::string, int> compared;
  for (const Row& row : published_rows()) {
    const auto kind = named.find(row.schedule);
    if (kind == named.end()) continue;
    EXPECT_NEAR(rate_of(row.shape, named_orders(kind->second, row.shape)), row.rate, kPrinted)
        << row.schedule << " " << row.name;
    ++compared[row.schedule];
  }
  EXPECT_EQ(compared, (std::map<std::string, int>{{"1F1B", 12}, {"ZB-H1", 12}, {"ZB-H2", 12}}));
}

TEST(PublishedRates, AutomaticScheduleReachesThePublishedRatesWithTheSameMemory) {
  int compared = 0;
  for (Row row : published_rows()) {
    if (row.schedule != "ZB-1p" && row.schedule != "ZB-2p") continue;
    row.shape.memory_limits.assign(
        row.shape.devices, row.schedule == "ZB-1p" ? row.shape.devices : 2 * row.shape.devices);
    const AutoOrders made = auto_orders(row.shape, {.goal = PipelineGoal::kSpan, .work = 0});
    EXPECT_EQ(first_fault(row.shape, made.orders), "") << row.schedule << " " << row.name;
    EXPECT_LE(rate_of(row.shape, made.orders), row.rate + kPrinted)
        << row.schedule << " " << row.name << " from " << made.from;
    ++compared;
  }
  EXPECT_EQ(compared, 24);
}

/// The simulated step of a row of table 4, in milliseconds.
double step_of(PipelineShape shape, const std::string& schedule, int layers) {
  const double memory = shape.devices;
  if (schedule == "1F1B-I") {
    // One layer for each stage.
    const int per_device = (layers + shape.devices - 1) / shape.devices;
    const double transfer = shape.transfer;
    shape = chain_of(shape.devices, per_device, StagePlacement::kRoundRobin, shape.micro_batches,
                     shape.stages[0].costs);
    shape.transfer = transfer;
    return simulate_passes(shape, named_orders(PipelineKind::kInterleaved, shape))->longest_span();
  }
  if (schedule == "1F1B")
    return simulate_passes(shape, named_orders(PipelineKind::kOneForwardOneBackward, shape))
        ->longest_span();
  shape.memory_limits.assign(shape.devices, schedule == "ZB-1p" ? memory : 2 * memory);
  return simulate_passes(shape, auto_orders(shape, {.goal = PipelineGoal::kSpan, .work = 0}).orders)
      ->longest_span();
}

TEST(PublishedThroughput, FollowsFromThePassTimesAndOneConstantForOptimizerAndSynchronization) {
  const std::map<std::string, PipelineShape> shapes = published_shapes();
  std::vector<double> ratios;  // measured by predicted throughput
  for (const auto& row : rows_of(kTables / "zero_bubble_table4_throughput.csv")) {
    const double step =
        step_of(shapes.at(key(row)), row.at("schedule"), std::stoi(row.at("layers")));
    const double samples = std::stod(row.at("num_microbatches")) * std::stod(row.at("micro_batch"));
    const double predicted = 1e3 * samples / (step * std::stod(row.at("pp")));
    ratios.push_back(std::stod(row.at("samples_per_gpu_s")) / predicted);
  }
  ASSERT_EQ(ratios.size(), 16);
  const double constant = std::accumulate(ratios.begin(), ratios.end(), 0.0) / 16;
  double error = 0;
  for (double ratio : ratios) error += std::abs(constant / ratio - 1) / 16;
  RecordProperty("constant", std::to_string(constant));
  RecordProperty("mean_error", std::to_string(error));
  EXPECT_GT(constant, 0.9) << "what is outside of the passes is a small part of a step";
  EXPECT_LT(constant, 1.0);
  EXPECT_LT(error, 0.04);
}

}  // namespace
}  // namespace tessera
